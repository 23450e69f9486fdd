#include "worker/model/exact_math.h"

#include <bit>
#include <cstdint>
#include <limits>

#include "shared/base/wide.h"

namespace holdfast::model {

namespace {

constexpr double kLn2High = 6.93147180369123816490e-01;  // its low 32 bits are 0: k * it is exact
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kLog2E = 1.4426950408889634074;

double power_of_two(std::int64_t k) {  // -1022 <= k <= 1023
  return std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52);
}

/// e^x for -87 <= x <= 0. Branch-free, so that loops over it vectorise.
HOLDFAST_WIDE_BODY float exp_reduced(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float k = (x * 1.44269504f + kRound) - kRound;
  const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const auto bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(k) + 127) << 23;
  return p * std::bit_cast<float>(bits);
}

HOLDFAST_WIDE_BODY float exp_one(float x, float shift, float scale) {
  const float y = (x - shift) / scale;
  const float clamped = y < -87.0f ? -87.0f : y;
  const float e = exp_reduced(clamped);
  return y < -87.0f ? 0.0f : e;
}

HOLDFAST_WIDE_BODY void exp_array_body(const float* x, float shift, float scale, float* out,
                                       int n) {
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    float e[16];  // `out` may be `x`, which would keep the loop from becoming vectors
    for (int j = 0; j < 16; ++j) e[j] = exp_one(x[i + j], shift, scale);
    for (int j = 0; j < 16; ++j) out[i + j] = e[j];
  }
  for (; i < n; ++i) out[i] = exp_one(x[i], shift, scale);
}

HOLDFAST_WIDE(exp_array_body, void, (const float* x, float shift, float scale, float* out, int n),
              (x, shift, scale, out, n))

}  // namespace

double exact_exp(double x) {
  if (x != x) return x;
  if (x > 709.78) return std::numeric_limits<double>::infinity();
  if (x < -745.0) return 0.0;
  const double scaled = x * kLog2E;
  const auto k = static_cast<std::int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
  const double r = (x - static_cast<double>(k) * kLn2High) - static_cast<double>(k) * kLn2Low;
  double p = 0;  // Taylor, |r| <= ln2 / 2: the next term is below 1e-17
  for (int i = 14; i >= 1; --i) p = (p + 1.0) * r / i;
  const std::int64_t half = k / 2;
  return (p + 1.0) * power_of_two(half) * power_of_two(k - half);
}

double exact_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  std::int64_t e = static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++e;
  }
  const double s = (m - 1.0) / (m + 1.0);  // log m = 2 atanh s, |s| < 0.172
  const double s2 = s * s;
  double p = 0;
  for (int i = 23; i >= 3; i -= 2) p = (p + 1.0 / i) * s2;
  const auto d = static_cast<double>(e);
  return d * kLn2High + (d * kLn2Low + 2.0 * s * p + 2.0 * s);
}

double exact_pow(double a, double b) {
  return exact_exp(b * exact_log(a));
}

void exact_exp_array(const float* x, float shift, float scale, float* out, int n) {
  HOLDFAST_WIDE_CALL(exp_array_body, x, shift, scale, out, n);
}

}  // namespace holdfast::model
