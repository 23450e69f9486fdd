// dequantize_row, and the formats with blocks of 32.

#include "shared/gguf/dequantize.h"

#include "shared/gguf/coded.h"
#include "shared/gguf/quants.h"

namespace holdfast::gguf {
namespace {

float half_at(const std::uint8_t* at) {
  return half_to_float(load_u16(at));
}

std::uint32_t load_u32(const std::uint8_t* at) {
  std::uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

BlockFn block_function(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return block_q4_0;
    case TensorType::kQ4_1:
      return block_q4_1;
    case TensorType::kQ5_0:
      return block_q5_0;
    case TensorType::kQ5_1:
      return block_q5_1;
    case TensorType::kQ8_0:
      return block_q8_0;
    case TensorType::kIQ4_NL:
      return block_iq4_nl;
    case TensorType::kQ2_K:
      return block_q2_k;
    case TensorType::kQ3_K:
      return block_q3_k;
    case TensorType::kQ4_K:
      return block_q4_k;
    case TensorType::kQ5_K:
      return block_q5_k;
    case TensorType::kQ6_K:
      return block_q6_k;
    case TensorType::kIQ4_XS:
      return block_iq4_xs;
    default:
      return nullptr;
  }
}

Result<void> unpack_coded(TensorType type, const CodedTraits& traits, const std::uint8_t* bytes,
                          float* out, std::uint64_t n) {
  const std::uint32_t block_bytes = type_traits(type)->block_bytes;
  CHECK(n % static_cast<std::uint64_t>(traits.elements) == 0);
  CodedBlock block;
  for (std::uint64_t i = 0; i < n; i += static_cast<std::uint64_t>(traits.elements)) {
    read_coded(type, bytes, block);
    for (int e = 0; e < traits.elements; ++e) {
      const int g = e / traits.group;
      out[i + static_cast<std::uint64_t>(e)] =
          block.d[g] * static_cast<float>(block.scale[g]) * traits.values[block.code[e]];
    }
    bytes += block_bytes;
  }
  return {};
}

}  // namespace

bool can_dequantize(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16 ||
         block_function(type) != nullptr || coded_traits(type) != nullptr;
}

// d: half | 16 bytes: low nibbles are elements 0-15, high nibbles 16-31. d * (q - 8)
void block_q4_0(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  const std::uint8_t* q = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((q[i] & 0xf) - 8) * d;
    out[i + 16] = static_cast<float>((q[i] >> 4) - 8) * d;
  }
}

// d, m: half | 16 bytes as Q4_0. d * q + m
void block_q4_1(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  const std::uint8_t* q = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(q[i] & 0xf) * d + m;
    out[i + 16] = static_cast<float>(q[i] >> 4) * d + m;
  }
}

// d: half | 32 bits: bit i is the fifth bit of element i | 16 bytes as Q4_0. d * (q - 16)
void block_q5_0(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  const std::uint32_t high = load_u32(block + 2);
  const std::uint8_t* q = block + 6;
  for (int i = 0; i < 16; ++i) {
    const int low_q = (q[i] & 0xf) | static_cast<int>((high >> i) & 1) << 4;
    const int high_q = (q[i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = static_cast<float>(low_q - 16) * d;
    out[i + 16] = static_cast<float>(high_q - 16) * d;
  }
}

// d, m: half | 32 bits as Q5_0 | 16 bytes as Q4_0. d * q + m
void block_q5_1(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  const std::uint32_t high = load_u32(block + 4);
  const std::uint8_t* q = block + 8;
  for (int i = 0; i < 16; ++i) {
    const int low_q = (q[i] & 0xf) | static_cast<int>((high >> i) & 1) << 4;
    const int high_q = (q[i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = static_cast<float>(low_q) * d + m;
    out[i + 16] = static_cast<float>(high_q) * d + m;
  }
}

// d: half | 32 x i8. d * q
void block_q8_0(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = static_cast<float>(static_cast<std::int8_t>(block[2 + i])) * d;
  }
}

// d: half | 16 bytes as Q4_0, each nibble an index into kIq4Values. d * value
void block_iq4_nl(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  const std::uint8_t* q = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(kIq4Values[q[i] & 0xf]);
    out[i + 16] = d * static_cast<float>(kIq4Values[q[i] >> 4]);
  }
}

namespace {

Result<void> dequantize_blocks(TensorType type, const std::uint8_t* bytes, float* out,
                               std::uint64_t n) {
  const auto traits = type_traits(type);
  const BlockFn block = block_function(type);
  if (!traits || !block) {
    return Error{Errc::kUnsupported,
                 "dequantize: tensor type " +
                     (traits ? std::string(traits->name)
                             : std::to_string(static_cast<std::uint32_t>(type))) +
                     " is not supported"};
  }
  CHECK(n % traits->block_elements == 0);
  for (std::uint64_t i = 0; i < n; i += traits->block_elements) {
    block(bytes, out + i);
    bytes += traits->block_bytes;
  }
  return {};
}

}  // namespace

Result<void> dequantize_row(TensorType type, const void* src, float* out, std::uint64_t n) {
  const auto* bytes = static_cast<const std::uint8_t*>(src);
  switch (type) {
    case TensorType::kF32:
      if (n != 0) std::memcpy(out, src, n * sizeof(float));
      return {};
    case TensorType::kF16:
      for (std::uint64_t i = 0; i < n; ++i) out[i] = half_to_float(load_u16(bytes + 2 * i));
      return {};
    case TensorType::kBF16:
      for (std::uint64_t i = 0; i < n; ++i) out[i] = bf16_to_float(load_u16(bytes + 2 * i));
      return {};
    default:
      break;
  }
  if (const CodedTraits* coded = coded_traits(type)) {
    return unpack_coded(type, *coded, bytes, out, n);
  }
  return dequantize_blocks(type, bytes, out, n);
}

}  // namespace holdfast::gguf
