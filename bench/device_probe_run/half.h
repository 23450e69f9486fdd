#pragma once
// IEEE halves on the host.

#include <bit>
#include <cmath>
#include <cstdint>

namespace holdfast::bench::probe {

using Half = std::uint16_t;  // its bits

/// Exact; for infinities and NaN undefined.
inline float float_of(Half h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (h & 0x8000) != 0 ? -size : size;
}

/// The nearest half, ties to even; |v| is below 65504 (larger values give 65504).
inline Half half_of(double v) {
  const Half sign = std::signbit(v) ? 0x8000 : 0;
  const double size = std::fmin(std::fabs(v), 65504.0);
  const int exponent = size == 0 ? -14 : std::max(-14, std::ilogb(size));
  const int codes = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  const int bits = codes + (exponent + 14) * 1024;  // a carry goes into the exponent
  return static_cast<Half>(sign | (codes < 1024 ? codes : bits));
}

}  // namespace holdfast::bench::probe
