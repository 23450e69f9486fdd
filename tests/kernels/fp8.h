#pragma once
// E4M3 as its specification defines it (Open Compute Project, "8-bit Floating Point
// Specification"), slowly: the reference for the kernels.

#include <cmath>
#include <cstdint>
#include <limits>

namespace holdfast {

inline float fp8_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(1 + static_cast<float>(mantissa) / 8, exponent - 7);
  return (code & 0x80) != 0 ? -size : size;
}

/// The nearest code, of two that are equally near the even one; beyond 448 the code of 448.
inline std::uint8_t nearest_fp8(float x) {
  const std::uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (!std::isfinite(x)) return sign | 0x7f;
  std::uint8_t best = 0;
  for (std::uint8_t code = 1; code < 0x7f; ++code) {
    const double old = std::fabs(std::fabs(double{x}) - double{fp8_value(best)});
    const double now = std::fabs(std::fabs(double{x}) - double{fp8_value(code)});
    if (now < old || (now == old && code % 2 == 0)) best = code;
  }
  return sign | best;
}

}  // namespace holdfast
