#pragma once
// Activation rows as products with quantised weights take them: integers with a scale for every 32.
// Products of such numbers with the weights' codes are exact in 32 bits, whatever instruction adds
// them up; only the operations once per group of weights round.
//
// int15 rows have 15 bits, x = scale * (128 * high + low): against floats the error is 2^-15 of the
// largest of 32. int8 rows have 8, x = scale * high: half the products, and an error of 0.4 % of a
// row, for products after which it matters least (takes_int8 says which).

#include <cstdint>

#include "shared/plan/kernel_sizes.h"

namespace holdfast::cpu {

using plan::kActivationBlock;
inline constexpr float kActivationMax = 16256;  // 127 * 128: high is at most 127, low in [-64, 63]

/// 32 values of an int15 row. Sums are over all of them, and over the first and the second half.
struct ActivationBlock {
  static constexpr bool kHasLow = true;
  std::int8_t high[kActivationBlock];
  std::int8_t low[kActivationBlock];
  float scale;             // largest magnitude / 16256; NaN if a value is not finite
  float sum;               // scale * whole.sum
  float half_sum[2];       // scale * whole.half_sum
  std::int32_t whole_sum;  // of 128 * high + low
  std::int32_t whole_half_sum[2];
  std::int32_t start;  // start of a sum over `high`, where codes are too large by 128: -whole_sum
};
static_assert(sizeof(ActivationBlock) == plan::kActivationBlockBytes);

/// 32 values of an int8 row: one cache line. Its scale is the one of kInt8Scales candidates with
/// the smallest sum of squared errors, the larger one of equals: that takes 6 % to 7 % off the root
/// of the sum.
struct Int8Block {
  static constexpr bool kHasLow = false;
  std::int8_t high[kActivationBlock];
  float scale;  // largest magnitude / (127 - i), i < kInt8Scales; NaN as above
  float sum;
  float half_sum[2];
  std::int32_t whole_sum;  // of high
  std::int32_t whole_half_sum[2];
  std::int32_t start;  // -128 * whole_sum
};
static_assert(sizeof(Int8Block) == 64);
inline constexpr int kInt8Max = 127;
inline constexpr int kInt8Scales = 4;

}  // namespace holdfast::cpu
