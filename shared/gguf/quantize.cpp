// quantize_row, the plain types and the formats with blocks of 32.

#include "shared/gguf/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "shared/gguf/dequantize.h"
#include "shared/gguf/fit.h"
#include "shared/gguf/quantize_k.h"
#include "shared/gguf/quants.h"

namespace holdfast::gguf {
namespace {

constexpr int kBlock = 32;

void put_nibbles(const std::int8_t* q, int offset, std::uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    const int low = q[i] + offset;
    const int high = q[i + 16] + offset;
    out[i] = static_cast<std::uint8_t>((low & 15) | (high & 15) << 4);
  }
}

void put_fifth_bits(const std::int8_t* q, int offset, std::uint8_t* out) {
  std::uint32_t bits = 0;
  for (int i = 0; i < kBlock; ++i) {
    bits |= static_cast<std::uint32_t>(((q[i] + offset) >> 4) & 1) << i;
  }
  std::memcpy(out, &bits, sizeof bits);
}

/// Writes d * (q - offset): Q4_0, Q5_0, Q8_0 and IQ4_NL. The codes are chosen for d as it is
/// stored.
void put_scaled(const CodeRange& range, const float* x, std::uint8_t* out, std::int8_t* q) {
  float w[kBlock];
  importance(x, kBlock, w);
  if (range.hi == 127) std::fill_n(w, kBlock, 1.0f);  // so precise that none needs a larger share
  const std::uint16_t d = float_to_half(fit_scale(range, x, w, kBlock));
  put_u16(out, d);
  assign_codes(range, x, kBlock, half_to_float(d), q);
}

/// Writes d * q + m: Q4_1 and Q5_1.
void put_line(int hi, const float* x, std::uint8_t* out, std::int8_t* q) {
  float w[kBlock];
  importance(x, kBlock, w);
  const Line fit = fit_line(hi, x, w, kBlock, false);
  std::uint16_t d = float_to_half(fit.scale);
  std::uint16_t m = float_to_half(-fit.minimum);
  // Near the least halves rounding can be worse than zeros.
  const float left = line_error(hi, x, w, kBlock, {half_to_float(d), -half_to_float(m)});
  if (!(left <= line_error(hi, x, w, kBlock, {}))) d = m = 0;
  put_u16(out, d);
  put_u16(out + 2, m);
  assign_line_codes(hi, x, kBlock, {half_to_float(d), -half_to_float(m)}, q);
}

void to_q4_0(const float* x, std::uint8_t* out) {
  std::int8_t q[kBlock];
  put_scaled({-8, 7}, x, out, q);
  put_nibbles(q, 8, out + 2);
}
void to_q4_1(const float* x, std::uint8_t* out) {
  std::int8_t q[kBlock];
  put_line(15, x, out, q);
  put_nibbles(q, 0, out + 4);
}
void to_q5_0(const float* x, std::uint8_t* out) {
  std::int8_t q[kBlock];
  put_scaled({-16, 15}, x, out, q);
  put_fifth_bits(q, 16, out + 2);
  put_nibbles(q, 16, out + 6);
}
void to_q5_1(const float* x, std::uint8_t* out) {
  std::int8_t q[kBlock];
  put_line(31, x, out, q);
  put_fifth_bits(q, 0, out + 4);
  put_nibbles(q, 0, out + 8);
}
void to_q8_0(const float* x, std::uint8_t* out) {
  std::int8_t q[kBlock];
  put_scaled({-127, 127}, x, out, q);
  std::memcpy(out + 2, q, kBlock);
}
void to_iq4_nl(const float* x, std::uint8_t* out) {
  std::int8_t q[kBlock];
  put_scaled({0, 15, kIq4Values}, x, out, q);
  put_nibbles(q, 0, out + 2);
}

/// Returns the 4-bit code (sign, then 0, ½, 1, 1½, 2, 3, 4, 6) next to x, the lower one of two.
int nearest_fp4(float x) {
  constexpr float kBorders[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  int code = 0;
  while (code < 7 && std::fabs(x) > kBorders[code]) ++code;
  return x < 0 && code > 0 ? code | 8 : code;
}
float fp4_value(int code) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -kValues[code & 7] : kValues[code];
}

/// Writes a block with one power of two as scale (OCP Microscaling 1.0): that of the specification,
/// which clips values between 6 and 8 of it, or the next one to either side if its squared error is
/// less.
void to_mxfp4(const float* x, std::uint8_t* out) {
  float most = 0;
  for (int i = 0; i < kBlock; ++i) most = std::max(most, std::fabs(x[i]));
  int exponent = 0;
  std::frexp(most, &exponent);  // most < 2^exponent, and at least half of that
  double least = INFINITY;
  for (int e = exponent - 4; e <= exponent - 2; ++e) {
    const int at = std::clamp(e, -127, 127);
    std::int8_t codes[kBlock];
    double error = 0;
    for (int i = 0; i < kBlock; ++i) {
      const int code = nearest_fp4(std::ldexp(x[i], -at));
      const double off = static_cast<double>(x[i]) - std::ldexp(fp4_value(code), at);
      codes[i] = static_cast<std::int8_t>(code);
      error += off * off;
    }
    if (!(error < least)) continue;
    least = error;
    out[0] = static_cast<std::uint8_t>(at + 127);
    put_nibbles(codes, 0, out + 1);
  }
}

using ToBlock = void (*)(const float* x, std::uint8_t* out);
ToBlock block_writer(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return to_q4_0;
    case TensorType::kQ4_1:
      return to_q4_1;
    case TensorType::kQ5_0:
      return to_q5_0;
    case TensorType::kQ5_1:
      return to_q5_1;
    case TensorType::kQ8_0:
      return to_q8_0;
    case TensorType::kIQ4_NL:
      return to_iq4_nl;
    case TensorType::kMXFP4:
      return to_mxfp4;
    case TensorType::kQ2_K:
      return to_q2_k;
    case TensorType::kQ3_K:
      return to_q3_k;
    case TensorType::kQ4_K:
      return to_q4_k;
    case TensorType::kQ5_K:
      return to_q5_k;
    case TensorType::kQ6_K:
      return to_q6_k;
    case TensorType::kIQ4_XS:
      return to_iq4_xs;
    default:
      return nullptr;
  }
}

/// Returns the largest magnitude of a weight: above it the scale overflows a half.
float largest(TensorType type) {
  if (type == TensorType::kF32) return INFINITY;
  if (type == TensorType::kBF16 || type == TensorType::kMXFP4) return 3.38e38f;
  return 65504.0f;
}

Result<void> check_values(TensorType type, const float* x, std::uint64_t n) {
  const float most = largest(type);
  for (std::uint64_t i = 0; i < n; ++i) {
    if (std::isfinite(x[i]) && std::fabs(x[i]) <= most) continue;
    return Error{
        Errc::kFileInvalid,
        "quantize: element " + std::to_string(i) + " is " + std::to_string(x[i]) +
            (std::isfinite(x[i]) ? "; " + std::string(type_traits(type)->name) + " holds at most " +
                                       std::to_string(most) + ", BF16 and F32 hold more"
                                 : std::string("; expected finite weights"))};
  }
  return {};
}

template <class Convert>
void put_halves(const float* x, std::uint64_t n, std::uint8_t* out, Convert&& convert) {
  for (std::uint64_t i = 0; i < n; ++i) put_u16(out + 2 * i, convert(x[i]));
}

}  // namespace

bool can_quantize(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16 ||
         block_writer(type) != nullptr;
}

Result<void> quantize_row(TensorType type, const float* x, std::uint64_t n, void* out) {
  auto* bytes = static_cast<std::uint8_t*>(out);
  if (!can_quantize(type)) {
    const auto traits = type_traits(type);
    return Error{Errc::kUnsupported,
                 "quantize: tensor type " +
                     (traits ? std::string(traits->name)
                             : std::to_string(static_cast<std::uint32_t>(type))) +
                     " cannot be written"};
  }
  HOLDFAST_CHECKED(check_values(type, x, n));
  if (type == TensorType::kF32) {
    if (n != 0) std::memcpy(out, x, n * sizeof(float));
    return {};
  }
  if (type == TensorType::kF16) {
    put_halves(x, n, bytes, float_to_half);
    return {};
  }
  if (type == TensorType::kBF16) {
    put_halves(x, n, bytes, float_to_bf16);
    return {};
  }
  const TypeTraits traits = *type_traits(type);
  const ToBlock write = block_writer(type);
  CHECK(n % traits.block_elements == 0);
  for (std::uint64_t i = 0; i < n; i += traits.block_elements) {
    write(x + i, bytes);
    bytes += traits.block_bytes;
  }
  return {};
}

}  // namespace holdfast::gguf
