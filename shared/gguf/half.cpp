// Half and bfloat16 conversions by integer arithmetic, so that neither the rounding mode nor a
// flushed denormal of the calling thread changes a bit.

#include <bit>

#include "shared/gguf/quants.h"

namespace holdfast::gguf {

float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1fu;
  std::uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // Subnormal: mantissa x 2^-24. Shifts its top bit to the hidden bit's position.
  const auto shift = static_cast<std::uint32_t>(std::countl_zero(mantissa)) - 21;
  mantissa = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | ((113 - shift) << 23) | (mantissa << 13));
}

std::uint16_t float_to_half(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return sign | 0x7e00u | ((rest >> 13) & 0x3ffu);  // a NaN stays a NaN
  if (rest >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (rest >= 0x38800000u) {                       // normal: 2^-14 and above
    const std::uint32_t odd = (rest >> 13) & 1;
    return static_cast<std::uint16_t>(sign | ((rest - 0x38000000u + 0xfffu + odd) >> 13));
  }
  if (rest < 0x33000000u) return sign;  // below half of the least subnormal, 2^-25
  const std::uint32_t exponent = rest >> 23;
  const std::uint32_t mantissa = (rest & 0x7fffffu) | 0x800000u;
  const std::uint32_t shift = 126 - exponent;  // 14 to 24: value = mantissa >> shift in 2^-24
  const std::uint32_t half = 1u << (shift - 1);
  const std::uint32_t odd = (mantissa >> shift) & 1;
  return static_cast<std::uint16_t>(sign | ((mantissa + half - 1 + odd) >> shift));
}

float bf16_to_float(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

std::uint16_t float_to_bf16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

}  // namespace holdfast::gguf
