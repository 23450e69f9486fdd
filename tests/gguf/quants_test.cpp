// Goal: each block format has exactly the float32 values that its definition gives. Method: blocks
// written by hand, with the expected values computed from the definition of the format, element by
// element; half and bfloat16 over every bit pattern; and, where the conformance data is present,
// the weight error of files that another implementation quantised.

#include "shared/gguf/quants.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <random>

namespace holdfast::gguf::quants_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

void put_half(Bytes& out, float value) {
  const std::uint16_t h = float_to_half(value);
  out.push_back(static_cast<std::uint8_t>(h & 255));
  out.push_back(static_cast<std::uint8_t>(h >> 8));
}

std::vector<float> values_of(TensorType type, const Bytes& blocks) {
  const TypeTraits traits = *type_traits(type);
  EXPECT_EQ(blocks.size() % traits.block_bytes, 0u);
  std::vector<float> out(blocks.size() / traits.block_bytes * traits.block_elements);
  EXPECT_TRUE(dequantize_row(type, blocks.data(), out.data(), out.size()).has_value());
  return out;
}

/// Quants of a test block, different for each element: q[i] in [0, 2^bits).
std::vector<int> quants(std::size_t n, int bits) {
  std::vector<int> q(n);
  for (std::size_t i = 0; i < n; ++i) q[i] = static_cast<int>((i * 7 + i / 16 + 3) % (1u << bits));
  return q;
}

/// Writes low four bits of 32 elements: element i in the low nibble of byte i, i + 16 in its high
/// nibble.
void put_nibbles32(Bytes& out, const std::vector<int>& q) {
  for (std::size_t i = 0; i < 16; ++i) {
    out.push_back(static_cast<std::uint8_t>((q[i] & 15) | (q[i + 16] & 15) << 4));
  }
}

TEST(Quants, Q40Block_WhenDequantized_MatchesItsDefinition) {
  Bytes block;
  const std::vector<int> q = quants(32, 4);
  put_half(block, -0.5f);
  put_nibbles32(block, q);
  const auto v = values_of(TensorType::kQ4_0, block);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(v[i], -0.5f * static_cast<float>(q[i] - 8)) << i;
}

TEST(Quants, Q41Block_WhenDequantized_MatchesItsDefinition) {
  Bytes block;
  const std::vector<int> q = quants(32, 4);
  put_half(block, 0.25f);
  put_half(block, -1.5f);
  put_nibbles32(block, q);
  const auto v = values_of(TensorType::kQ4_1, block);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(v[i], 0.25f * static_cast<float>(q[i]) - 1.5f);
}

void put_fifth_bits(Bytes& out, const std::vector<int>& q) {
  std::uint32_t high = 0;
  for (std::size_t i = 0; i < 32; ++i) high |= static_cast<std::uint32_t>(q[i] >> 4) << i;
  for (int k = 0; k < 4; ++k) out.push_back(static_cast<std::uint8_t>(high >> (8 * k)));
}

TEST(Quants, Q50Block_WhenDequantized_MatchesItsDefinition) {
  Bytes block;
  const std::vector<int> q = quants(32, 5);
  put_half(block, 0.125f);
  put_fifth_bits(block, q);
  put_nibbles32(block, q);
  const auto v = values_of(TensorType::kQ5_0, block);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(v[i], 0.125f * static_cast<float>(q[i] - 16));
}

TEST(Quants, Q51Block_WhenDequantized_MatchesItsDefinition) {
  Bytes block;
  const std::vector<int> q = quants(32, 5);
  put_half(block, 0.125f);
  put_half(block, -2.0f);
  put_fifth_bits(block, q);
  put_nibbles32(block, q);
  const auto v = values_of(TensorType::kQ5_1, block);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(v[i], 0.125f * static_cast<float>(q[i]) - 2.0f);
}

TEST(Quants, Q80Blocks_WhenDequantized_MatchTheirDefinition) {
  Bytes blocks;
  for (int b = 0; b < 2; ++b) {
    put_half(blocks, b == 0 ? 0.5f : 2.0f);
    for (int i = 0; i < 32; ++i) blocks.push_back(static_cast<std::uint8_t>(i * 8 - 128 + b));
  }
  const auto v = values_of(TensorType::kQ8_0, blocks);
  for (int i = 0; i < 64; ++i) {
    const int q = i % 32 * 8 - 128 + i / 32;
    EXPECT_EQ(v[static_cast<std::size_t>(i)], (i < 32 ? 0.5f : 2.0f) * static_cast<float>(q));
  }
}

constexpr int kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

TEST(Quants, Iq4NlBlock_WhenDequantized_MatchesItsDefinition) {
  Bytes block;
  const std::vector<int> q = quants(32, 4);
  put_half(block, 0.25f);
  put_nibbles32(block, q);
  const auto v = values_of(TensorType::kIQ4_NL, block);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(v[i], 0.25f * static_cast<float>(kIq4[q[i]]));
}

/// Writes two bits of 256 elements: byte b of a half holds elements b, b + 32, b + 64, b + 96.
void put_pairs256(Bytes& out, const std::vector<int>& q) {
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t b = 0; b < 32; ++b) {
      int byte = 0;
      for (std::size_t k = 0; k < 4; ++k) byte |= (q[half * 128 + k * 32 + b] & 3) << (2 * k);
      out.push_back(static_cast<std::uint8_t>(byte));
    }
  }
}

TEST(Quants, Q2KBlock_WhenDequantized_MatchesItsDefinition) {
  const std::vector<int> q = quants(256, 2), scale = quants(16, 4);
  Bytes block;
  for (std::size_t j = 0; j < 16; ++j) {
    block.push_back(static_cast<std::uint8_t>(scale[j] | (15 - scale[j]) << 4));
  }
  put_pairs256(block, q);
  put_half(block, 0.5f);
  put_half(block, 0.25f);
  const auto v = values_of(TensorType::kQ2_K, block);
  for (std::size_t i = 0; i < 256; ++i) {
    const float s = 0.5f * static_cast<float>(scale[i / 16]);
    const float m = 0.25f * static_cast<float>(15 - scale[i / 16]);
    EXPECT_EQ(v[i], s * static_cast<float>(q[i]) - m) << i;
  }
}

TEST(Quants, Q3KBlock_WhenDequantized_MatchesItsDefinition) {
  const std::vector<int> q = quants(256, 3), scale = quants(16, 6);
  Bytes block(32, 0);
  for (std::size_t i = 0; i < 256; ++i) {
    block[i % 32] = static_cast<std::uint8_t>(block[i % 32] | (q[i] >> 2) << (i / 32));
  }
  put_pairs256(block, q);
  for (std::size_t j = 0; j < 8; ++j) {
    block.push_back(static_cast<std::uint8_t>((scale[j] & 15) | (scale[j + 8] & 15) << 4));
  }
  for (std::size_t j = 0; j < 4; ++j) {
    block.push_back(static_cast<std::uint8_t>(scale[j] >> 4 | scale[j + 4] >> 4 << 2 |
                                              scale[j + 8] >> 4 << 4 | scale[j + 12] >> 4 << 6));
  }
  put_half(block, 0.125f);
  const auto v = values_of(TensorType::kQ3_K, block);
  for (std::size_t i = 0; i < 256; ++i) {
    const float s = 0.125f * static_cast<float>(scale[i / 16] - 32);
    EXPECT_EQ(v[i], s * static_cast<float>(q[i] - 4)) << i;
  }
}

/// Writes the 12 bytes of eight 6-bit scales and minima.
void put_scale_min(Bytes& out, const std::vector<int>& s, const std::vector<int>& m) {
  for (std::size_t j = 0; j < 4; ++j) {
    out.push_back(static_cast<std::uint8_t>(s[j] | s[j + 4] >> 4 << 6));
  }
  for (std::size_t j = 0; j < 4; ++j) {
    out.push_back(static_cast<std::uint8_t>(m[j] | m[j + 4] >> 4 << 6));
  }
  for (std::size_t j = 4; j < 8; ++j) {
    out.push_back(static_cast<std::uint8_t>((s[j] & 15) | (m[j] & 15) << 4));
  }
}

/// Writes low four bits of 256 elements: of each 64, byte l holds element l (low) and l + 32
/// (high).
void put_nibbles256(Bytes& out, const std::vector<int>& q) {
  for (std::size_t group = 0; group < 4; ++group) {
    for (std::size_t l = 0; l < 32; ++l) {
      const std::size_t at = group * 64 + l;
      out.push_back(static_cast<std::uint8_t>((q[at] & 15) | (q[at + 32] & 15) << 4));
    }
  }
}

TEST(Quants, Q4KAndQ5KBlocks_WhenDequantized_MatchTheirDefinition) {
  const std::vector<int> scale = {1, 63, 17, 32, 48, 5, 62, 31};
  const std::vector<int> minimum = {63, 2, 40, 16, 33, 61, 3, 20};
  for (const int bits : {4, 5}) {
    const std::vector<int> q = quants(256, bits);
    Bytes block;
    put_half(block, 0.5f);
    put_half(block, 0.25f);
    put_scale_min(block, scale, minimum);
    if (bits == 5) {
      for (std::size_t l = 0; l < 32; ++l) {
        int byte = 0;
        for (std::size_t j = 0; j < 8; ++j) byte |= (q[j * 32 + l] >> 4) << j;
        block.push_back(static_cast<std::uint8_t>(byte));
      }
    }
    put_nibbles256(block, q);
    const auto v = values_of(bits == 4 ? TensorType::kQ4_K : TensorType::kQ5_K, block);
    for (std::size_t i = 0; i < 256; ++i) {
      const float s = 0.5f * static_cast<float>(scale[i / 32]);
      const float m = 0.25f * static_cast<float>(minimum[i / 32]);
      EXPECT_EQ(v[i], s * static_cast<float>(q[i]) - m) << bits << " bits, " << i;
    }
  }
}

TEST(Quants, Q6KBlock_WhenDequantized_MatchesItsDefinition) {
  const std::vector<int> q = quants(256, 6);
  Bytes block;
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t l = 0; l < 64; ++l) {
      const std::size_t at = half * 128 + l;
      block.push_back(static_cast<std::uint8_t>((q[at] & 15) | (q[at + 64] & 15) << 4));
    }
  }
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t l = 0; l < 32; ++l) {
      int byte = 0;
      for (std::size_t k = 0; k < 4; ++k) byte |= (q[half * 128 + k * 32 + l] >> 4) << (2 * k);
      block.push_back(static_cast<std::uint8_t>(byte));
    }
  }
  for (int j = 0; j < 16; ++j) block.push_back(static_cast<std::uint8_t>(j * 17 - 128));
  put_half(block, 0.25f);
  const auto v = values_of(TensorType::kQ6_K, block);
  for (std::size_t i = 0; i < 256; ++i) {
    const int scale = static_cast<int>(i / 16) * 17 - 128;
    EXPECT_EQ(v[i], 0.25f * static_cast<float>(scale) * static_cast<float>(q[i] - 32)) << i;
  }
}

TEST(Quants, Iq4XsBlock_WhenDequantized_MatchesItsDefinition) {
  const std::vector<int> q = quants(256, 4);
  const std::vector<int> scale = {0, 63, 17, 32, 48, 5, 62, 31};
  Bytes block;
  put_half(block, 0.5f);
  int high = 0;
  for (std::size_t j = 0; j < 8; ++j) high |= scale[j] >> 4 << (2 * j);
  block.push_back(static_cast<std::uint8_t>(high & 255));
  block.push_back(static_cast<std::uint8_t>(high >> 8));
  for (std::size_t j = 0; j < 8; j += 2) {
    block.push_back(static_cast<std::uint8_t>((scale[j] & 15) | (scale[j + 1] & 15) << 4));
  }
  for (std::size_t j = 0; j < 8; ++j) {
    const auto at = static_cast<std::ptrdiff_t>(j * 32);
    put_nibbles32(block, std::vector<int>(q.begin() + at, q.begin() + at + 32));
  }
  const auto v = values_of(TensorType::kIQ4_XS, block);
  for (std::size_t i = 0; i < 256; ++i) {
    const float s = 0.5f * static_cast<float>(scale[i / 32] - 32);
    EXPECT_EQ(v[i], s * static_cast<float>(kIq4[q[i]])) << i;
  }
}

TEST(Quants, FloatTypes_WhenTheSourceIsUnaligned_AreConverted) {
  const float values[] = {1.0f, -0.0f, 3.5e-3f};
  Bytes shifted(1 + sizeof values);
  std::memcpy(shifted.data() + 1, values, sizeof values);
  float out[3];
  ASSERT_TRUE(dequantize_row(TensorType::kF32, shifted.data() + 1, out, 3).has_value());
  EXPECT_EQ(std::memcmp(out, values, sizeof out), 0);
  EXPECT_TRUE(dequantize_row(TensorType::kF32, nullptr, nullptr, 0).has_value());
  Bytes halves = {0xff};
  for (const float v : values) put_half(halves, v);
  ASSERT_TRUE(dequantize_row(TensorType::kF16, halves.data() + 1, out, 3).has_value());
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_TRUE(std::signbit(out[1]));
  const auto error = dequantize_row(TensorType::kQ8_K, shifted.data(), out, 256);
  ASSERT_FALSE(error.has_value());
  EXPECT_EQ(error.error().code, Errc::kUnsupported);
  EXPECT_NE(error.error().what.find("Q8_K"), std::string::npos);
}

TEST(Dequantize, DequantizeRow_WhenTheTypeIsUnsupported_NamesIt) {
  const Bytes bytes(1024);
  float out[256];
  const std::pair<TensorType, std::string> kTypes[] = {{TensorType::kI8, "I8"},
                                                       {TensorType::kF64, "F64"},
                                                       {TensorType::kQ8_1, "Q8_1"},
                                                       {static_cast<TensorType>(99), "99"}};
  for (const auto& [type, name] : kTypes) {
    EXPECT_FALSE(can_dequantize(type)) << name;
    const auto done = dequantize_row(type, bytes.data(), out, 64);
    ASSERT_FALSE(done.has_value()) << name;
    EXPECT_EQ(done.error().code, Errc::kUnsupported);
    EXPECT_EQ(done.error().what, "dequantize: tensor type " + name + " is not supported");
  }
}

TEST(Quants, RowBytesAndTypeNames_WithEachType_AreConsistent) {
  EXPECT_EQ(row_bytes(TensorType::kQ4_K, 512), 288u);
  EXPECT_EQ(row_bytes(TensorType::kQ4_K, 500), std::nullopt);
  EXPECT_EQ(row_bytes(TensorType::kF32, 1ull << 63), std::nullopt);
  EXPECT_EQ(row_bytes(static_cast<TensorType>(99), 256), std::nullopt);
  EXPECT_EQ(type_from_name("q4_k"), TensorType::kQ4_K);
  EXPECT_EQ(type_from_name("q4"), std::nullopt);
  for (std::uint32_t t = 0; t < 64; ++t) {
    const auto traits = type_traits(static_cast<TensorType>(t));
    if (!traits) continue;
    EXPECT_EQ(type_from_name(traits->name), static_cast<TensorType>(t));
    EXPECT_GT(traits->block_bytes, 0u);
  }
}

/// A half's value from its definition, in double.
double half_value(std::uint32_t h) {
  const int exponent = static_cast<int>(h >> 10 & 31);
  const double mantissa = h & 1023;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(HalfPrecision, Half_WithEveryBitPattern_ConvertsExactlyAndBack) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const float f = half_to_float(static_cast<std::uint16_t>(h));
    if ((h & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(f), (h & 1023) != 0);
      EXPECT_EQ(std::isinf(f), (h & 1023) == 0);
      EXPECT_EQ(std::signbit(f), (h & 0x8000) != 0);
    } else {
      ASSERT_EQ(static_cast<double>(f), half_value(h)) << h;
      ASSERT_EQ(std::signbit(f), (h & 0x8000) != 0);
    }
    const std::uint16_t back = float_to_half(f);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(half_to_float(back)));
    } else {
      ASSERT_EQ(back, h);
    }
  }
}

// Midpoints round to the even neighbour; below goes down, above goes up.
TEST(HalfPrecision, FloatToHalf_AtMidpoints_RoundsToNearestEven) {
  for (std::uint32_t h = 0; h < 0x7bff; ++h) {
    const double middle = (half_value(h) + half_value(h + 1)) / 2;
    const auto exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle);
    const std::uint32_t even = h % 2 == 0 ? h : h + 1;
    ASSERT_EQ(float_to_half(exact), even) << h;
    ASSERT_EQ(float_to_half(-exact), even | 0x8000) << h;
    ASSERT_EQ(float_to_half(std::nextafterf(exact, 0.0f)), h) << h;
    ASSERT_EQ(float_to_half(std::nextafterf(exact, 1e9f)), h + 1) << h;
  }
  EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(float_to_half(1e-30f), 0);
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::nanf("")))));
}

TEST(HalfPrecision, Bfloat16_WithEveryBitPattern_ConvertsExactlyAndBack) {
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const float f = bf16_to_float(static_cast<std::uint16_t>(b));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(f), b << 16);
    if (!std::isnan(f)) {
      ASSERT_EQ(float_to_bf16(f), b);
    } else {
      ASSERT_TRUE(std::isnan(bf16_to_float(float_to_bf16(f))));
    }
  }
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // middle, even below
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // middle, even above
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

/// 2-norm of the difference of all matrices over that of the exact ones.
double weight_error(const File& exact, const File& quantised) {
  double difference = 0, norm = 0;
  for (const TensorInfo& tensor : exact.tensors()) {
    const TensorInfo* other = quantised.tensor(tensor.name);
    if (tensor.n_dims < 2 || !other || other->elements() != tensor.elements()) continue;
    std::vector<float> a(tensor.elements()), b(tensor.elements());
    EXPECT_TRUE(dequantize_row(tensor.type, tensor.data.data(), a.data(), a.size()).has_value());
    EXPECT_TRUE(dequantize_row(other->type, other->data.data(), b.data(), b.size()).has_value());
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += (a[i] - b[i]) * static_cast<double>(a[i] - b[i]);
      norm += a[i] * static_cast<double>(a[i]);
    }
  }
  return std::sqrt(difference / norm);
}

// One wrong bit place in a format makes the error near 1. The bounds are twice the rounding error
// of a format with that many bits on normal weights.
TEST(QuantsConformance, DequantizedFiles_WhenMadeByLlamaCpp_AreNearTheExactWeights) {
  const char* env = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  const std::string folder =
      std::string(env ? env : HOLDFAST_SOURCE_DIR "/../shared/conformance") + "/logits/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const auto exact = File::open(folder + "llama-F32.gguf");
  ASSERT_TRUE(exact.has_value()) << exact.error().what;
  const std::pair<const char*, double> kBounds[] = {
      {"F16", 0.0005}, {"BF16", 0.003}, {"Q8_0", 0.01},   {"Q6_K", 0.03},  {"Q5_K_M", 0.06},
      {"Q5_0", 0.08},  {"Q5_1", 0.08},  {"Q4_0", 0.15},   {"Q4_1", 0.15},  {"Q4_K_M", 0.13},
      {"Q3_K_M", 0.2}, {"Q2_K", 0.4},   {"IQ4_NL", 0.14}, {"IQ4_XS", 0.14}};
  for (const auto& [type, bound] : kBounds) {
    const auto file = File::open(folder + "llama-" + type + ".gguf");
    ASSERT_TRUE(file.has_value()) << file.error().what;
    const double error = weight_error(**exact, **file);
    EXPECT_LT(error, bound) << type;
    EXPECT_GT(error, bound / 4) << type;
  }
}

}  // namespace
}  // namespace holdfast::gguf::quants_test
