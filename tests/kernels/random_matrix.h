#pragma once
// Random weights as a file would hold them, for every type that has kernels.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "shared/gguf/quants.h"
#include "worker/backend/cpu/memory.h"
#include "worker/weights/pack.h"

namespace holdfast::cpu {

inline const std::vector<gguf::TensorType>& kernel_types() {
  using T = gguf::TensorType;
  static const std::vector<T> types = {
      T::kF32,    T::kF16,   T::kBF16,  T::kQ4_0,    T::kQ4_1,   T::kQ5_0,  T::kQ5_1,
      T::kQ8_0,   T::kQ2_K,  T::kQ3_K,  T::kQ4_K,    T::kQ5_K,   T::kQ6_K,  T::kIQ4_NL,
      T::kIQ4_XS, T::kIQ1_S, T::kIQ1_M, T::kIQ2_XXS, T::kIQ2_XS, T::kIQ2_S, T::kIQ3_XXS,
      T::kIQ3_S,  T::kMXFP4, T::kNVFP4, T::kTQ1_0,   T::kTQ2_0,  T::kQ1_0,  T::kQ2_0};
  return types;
}

/// Offsets of a block's halves (d, then m or dmin); the other bytes may have any value.
inline std::vector<int> half_offsets(gguf::TensorType type) {
  using T = gguf::TensorType;
  switch (type) {
    case T::kQ4_1:
    case T::kQ5_1:
    case T::kQ4_K:
    case T::kQ5_K:
      return {0, 2};
    case T::kQ2_K:
      return {80, 82};
    case T::kQ3_K:
      return {108};
    case T::kQ6_K:
      return {208};
    case T::kTQ1_0:
      return {52};
    case T::kTQ2_0:
      return {64};
    case T::kIQ1_M:  // in four parts
    case T::kMXFP4:
    case T::kNVFP4:
      return {};
    default:
      return {0};
  }
}

struct TestMatrix {
  gguf::TensorType type;
  std::int64_t rows;
  std::int64_t cols;
  std::size_t row_bytes = 0;
  std::vector<std::uint8_t> file;  // [rows][row_bytes]
  std::vector<float> floats;       // [rows][cols], by gguf::dequantize_row
  PackedMatrix packed;
  Region memory;
};

inline void fill_blocks(TestMatrix& m, std::mt19937& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  const gguf::TypeTraits traits = gguf::type_traits(m.type).value();
  for (std::size_t at = 0; at < m.file.size(); at += traits.block_bytes) {
    std::uint8_t* block = m.file.data() + at;
    const auto put_half = [&](int offset, std::uint16_t h) {
      block[offset] = static_cast<std::uint8_t>(h);
      block[offset + 1] = static_cast<std::uint8_t>(h >> 8);
    };
    for (std::size_t i = 0; i < traits.block_bytes; ++i) {
      block[i] = static_cast<std::uint8_t>(random());
    }
    const float f = value(random);
    if (m.type == gguf::TensorType::kF32) {
      std::memcpy(block, &f, 4);
    } else if (m.type == gguf::TensorType::kF16) {
      put_half(0, gguf::float_to_half(f));
    } else if (m.type == gguf::TensorType::kBF16) {
      put_half(0, gguf::float_to_bf16(f));
    } else {
      for (const int offset : half_offsets(m.type)) {
        put_half(offset, gguf::float_to_half(value(random) * 0.01f));
      }
      if (m.type == gguf::TensorType::kMXFP4)
        block[0] = static_cast<std::uint8_t>(118 + block[0] % 8);
      if (m.type == gguf::TensorType::kIQ1_M) block[55] &= 0x9f;  // an exponent below 16
    }
  }
}

inline TestMatrix random_matrix(gguf::TensorType type, std::int64_t rows, std::int64_t cols,
                                std::int64_t group_rows, std::uint32_t seed) {
  std::mt19937 random(seed);
  TestMatrix m;
  m.type = type;
  m.rows = rows;
  m.cols = cols;
  m.row_bytes = gguf::row_bytes(type, static_cast<std::uint64_t>(cols)).value();
  m.file.resize(m.row_bytes * static_cast<std::size_t>(rows));
  fill_blocks(m, random);
  m.floats.resize(static_cast<std::size_t>(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    CHECK(gguf::dequantize_row(type, m.file.data() + static_cast<std::size_t>(r) * m.row_bytes,
                               m.floats.data() + r * cols, static_cast<std::uint64_t>(cols))
              .has_value());
  }
  m.packed = packed_geometry(format_of(type).value(), rows, cols, group_rows);
  m.memory = Region::take(m.packed.bytes(), "test").value();
  m.packed.data = m.memory.data();
  CHECK(pack_panels(m.packed, type, m.file.data(), m.row_bytes, 0, m.packed.panels) == -1);
  return m;
}

/// Activations [rows][stride], the padding zero, with a few zeros and subnormals among them.
inline std::vector<float> random_rows(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                                      std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> value(0, 1);
  std::vector<float> x(static_cast<std::size_t>(rows * stride), 0.0f);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < cols; ++k) {
      float& at = x[static_cast<std::size_t>(r * stride + k)];
      at = value(random);
      if (random() % 31 == 0) at = 0;
      if (random() % 37 == 0) at *= 0x1p-130f;
    }
  }
  return x;
}

}  // namespace holdfast::cpu
