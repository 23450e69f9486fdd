#pragma once
// Activation rows as products with quantised weights take them: whole numbers of 15 bits with a
// scale for every 32, x = scale * (128 * high + low). Products of such numbers with the weights'
// codes are exact in 32 bits, whatever instruction adds them up; only what is done once for every
// group of weights rounds. Against floats the error is 2^-15 of the largest of 32.

#include <cstdint>

namespace holdfast::cpu {

inline constexpr int kActivationBlock = 32;
inline constexpr float kActivationMax = 16256;  // 127 * 128: high is at most 127, low in [-64, 63]

/// 32 values of a row. Sums are over all of them, and over the first and the second half.
struct ActivationBlock {
  std::int8_t high[kActivationBlock];
  std::int8_t low[kActivationBlock];
  float scale;             // largest magnitude / 16256; NaN if a value is not finite
  float sum;               // scale * whole.sum
  float half_sum[2];       // scale * whole.half_sum
  std::int32_t whole_sum;  // of 128 * high + low
  std::int32_t whole_half_sum[2];
  std::int32_t negative_sum;  // -whole_sum
};
static_assert(sizeof(ActivationBlock) == 96);

}  // namespace holdfast::cpu
