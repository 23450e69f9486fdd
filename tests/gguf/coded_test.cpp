// Goal: types of codebooks, small floats and ternary weights have exactly the values that the
// formats' first implementation gives them. Method: one block of each with bytes of a fixed
// pattern; the expected first and last values and two sums over all (the second one weighted by
// index) are those of ggml's own reference code, in which every product is exact.

#include "shared/gguf/coded.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "shared/gguf/quants.h"

namespace holdfast::gguf::coded_test {
namespace {

struct Case {
  TensorType type;
  int d_at;  // offset of a half that is set to 1, -1: none
  float first[8];
  float last[8];
  double sum;
  double weighted;
};

constexpr Case kCases[] = {
    {TensorType::kIQ1_S,
     0,
     {-2.625, 0.375, 3.375, 3.375, 3.375, 0.375, 3.375, 0.375},
     {-4.375, 5.625, 0.625, 0.625, -4.375, -4.375, 0.625, -4.375},
     20,
     -1258.5},
    {TensorType::kIQ1_M,
     -1,
     {-0.875, 6.125, -0.875, -0.875, 6.125, -0.875, -7.875, -0.875},
     {-16.875, -1.875, -16.875, -1.875, 13.125, 13.125, 13.125, -1.875},
     41,
     1004.75},
    {TensorType::kIQ2_XXS,
     0,
     {-59.125, 59.125, 34.375, -34.375, 34.375, -11, -34.375, 11},
     {15, -46.875, 15, 15, 15, 46.875, 15, -80.625},
     763.75,
     11022.875},
    {TensorType::kIQ2_XS,
     0,
     {-11, 34.375, -11, -59.125, -11, -34.375, 11, -11},
     {19, 59.375, 102.125, -19, -19, -59.375, 19, -19},
     1490.5,
     34396.5},
    {TensorType::kIQ2_S,
     0,
     {-145.125, 84.375, -27, 27, -27, -145.125, -84.375, -27},
     {25, 25, 78.125, 134.375, -25, -78.125, -78.125, 78.125},
     -800.625,
     -8086.25},
    {TensorType::kIQ3_XXS,
     0,
     {-13, 9, -7, 3, -15.5, 7, 5, -5},
     {-21, -3, -15, 9, 3, 21, 9, -15},
     -684,
     -25339},
    {TensorType::kIQ3_S,
     0,
     {-81, 243, -351, -189, -351, -189, 27, -81},
     {375, 75, 225, -25, -175, -25, 125, 225},
     1456,
     68578},
    {TensorType::kTQ1_0, 52, {-1, -1, -1, 0, 0, 1, 1, -1}, {1, -1, 0, 1, 0, 0, -1, -1}, -2, 43},
    {TensorType::kTQ2_0, 64, {2, -1, 0, 1, 2, -1, 0, 1}, {-1, 0, 0, 1, 1, 2, -1, -1}, 129, 2078},
    {TensorType::kMXFP4,
     -1,
     {0, 12, -4, -24, 8, -2, -16, 6},
     {12, 24, -4, -8, -16, 2, 6, 12},
     50,
     696},
    {TensorType::kNVFP4,
     -1,
     {-0.12890625, 0.04296875, -0.0107421875, -0.0859375, 0.0322265625, 0, -0.064453125,
      0.021484375},
     {160, 480, 1280, 0, -320, -960, -1920, 160},
     1541.37109375,
     66507.15234375},
    {TensorType::kQ1_0, 0, {1, -1, 1, -1, 1, -1, 1, -1}, {-1, -1, -1, -1, -1, -1, -1, 1}, 0, -68},
    {TensorType::kQ2_0, 0, {0, 0, 0, 0, 1, 1, 2, 0}, {2, 1, 0, 0, -1, -1, -1, 1}, 30, 436},
};

std::vector<std::uint8_t> block_of(const Case& c) {
  std::vector<std::uint8_t> block(type_traits(c.type)->block_bytes);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::uint8_t>(i * 37 + 11);
  if (c.d_at >= 0) {
    block[static_cast<std::size_t>(c.d_at)] = 0;
    block[static_cast<std::size_t>(c.d_at) + 1] = 0x3c;
  }
  if (c.type == TensorType::kMXFP4) block[0] = 129;  // times 2
  if (c.type == TensorType::kIQ1_M) {                // its half is in four parts, lowest first
    const std::uint8_t parts[4] = {0x0, 0x0, 0xc, 0x3};
    for (std::size_t i = 0; i < 4; ++i) {
      std::uint8_t& at = block[49 + 2 * i];
      at = static_cast<std::uint8_t>((at & 15) | parts[i] << 4);
    }
  }
  return block;
}

TEST(CodebookTypes, Blocks_WhenDequantized_EqualGgmlsReferenceValues) {
  for (const Case& c : kCases) {
    const auto name = type_traits(c.type)->name;
    const std::vector<std::uint8_t> block = block_of(c);
    std::vector<float> v(type_traits(c.type)->block_elements);
    ASSERT_TRUE(dequantize_row(c.type, block.data(), v.data(), v.size())) << name;
    double sum = 0, weighted = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      sum += v[i];
      weighted += static_cast<double>(v[i]) * static_cast<double>(i % 29 + 1);
    }
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(v[i], c.first[i]) << name << " " << i;
      EXPECT_EQ(v[v.size() - 8 + i], c.last[i]) << name << " " << i;
    }
    EXPECT_EQ(sum, c.sum) << name;
    EXPECT_EQ(weighted, c.weighted) << name;
  }
}

// The ends of MXFP4's exponent and of NVFP4's scales, by their definitions.
TEST(CodebookTypes, Mxfp4AndNvfp4Scales_AtTheirExtremes_AreExact) {
  float v[64];
  std::uint8_t block[36] = {};
  std::memset(block + 1, 0x11, 16);
  for (const int e : {0, 1, 2, 127, 128, 254, 255}) {
    block[0] = static_cast<std::uint8_t>(e);
    ASSERT_TRUE(dequantize_row(TensorType::kMXFP4, block, v, 32));
    EXPECT_EQ(static_cast<double>(v[0]), std::ldexp(1.0, e - 128)) << e;
  }
  std::memset(block, 0, sizeof block);
  block[4] = 0x72;  // element 0 is 2 / 2, element 8 is 12 / 2
  const std::pair<std::uint8_t, double> kScales[] = {
      {0x00, 0}, {0x01, 0x1p-9}, {0x07, 7 * 0x1p-9}, {0x08, 0x1p-6},
      {0x38, 1}, {0x39, 1.125},  {0x7e, 448},        {0x7f, 0}};
  for (const auto& [byte, scale] : kScales) {
    block[0] = byte;
    ASSERT_TRUE(dequantize_row(TensorType::kNVFP4, block, v, 64));
    EXPECT_EQ(static_cast<double>(v[0]), scale) << int{byte};
    EXPECT_EQ(static_cast<double>(v[8]), 6 * scale) << int{byte};
    EXPECT_EQ(v[1], 0) << int{byte};
  }
}

TEST(CodebookTypes, CanDequantize_WithEachType_IsTrueForWeightTypesAlone) {
  for (std::uint32_t n = 0; n < 64; ++n) {
    const auto type = static_cast<TensorType>(n);
    if (!type_traits(type)) continue;
    const auto name = type_traits(type)->name;
    const bool other = name[0] == 'I' && name[1] != 'Q';
    EXPECT_EQ(can_dequantize(type), !other && name != "F64" && name != "Q8_1" && name != "Q8_K")
        << name;
  }
}

}  // namespace
}  // namespace holdfast::gguf::coded_test
