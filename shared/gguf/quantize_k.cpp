// Super-blocks: groups of 16 or 32 weights have small integer scales (and minima) of their own, and
// two halves scale those. First fits every group alone, then rounds the groups' scales to the
// format, then refines: the integers of each group for given halves, the halves for given integers.
// A round that does not lower the error ends it.

#include "shared/gguf/quantize_k.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "shared/gguf/dequantize.h"
#include "shared/gguf/fit.h"
#include "shared/gguf/quants.h"

namespace holdfast::gguf {
namespace {

constexpr int kSuper = 256;
constexpr int kRounds = 4;

/// Codes with weight = d * scale[g] * code, scale in [scale_lo, scale_hi].
struct Scaled {
  std::uint16_t d = 0;
  int scale[16] = {};
  std::int8_t q[kSuper] = {};
};
struct ScaledFormat {
  int group;
  CodeRange codes;
  int scale_lo;
  int scale_hi;
};

float value_of(const CodeRange& range, std::int8_t q) {
  return static_cast<float>(range.table ? range.table[q] : q);
}

/// Finds the best integer scale of each group for the stored d, and the codes for it.
float assign_groups(const ScaledFormat& f, const float* x, const float* w, const float* targets,
                    Scaled& to) {
  const float d = half_to_float(to.d);
  float total = 0;
  for (int g = 0; g < kSuper / f.group; ++g) {
    const float* at = x + g * f.group;
    const float ideal = d != 0 ? targets[g] / d : 0;
    const int middle = static_cast<int>(std::clamp(std::nearbyint(ideal), -512.0f, 512.0f));
    float best = INFINITY;
    for (int s = middle - 1; s <= middle + 1; ++s) {
      const int scale = std::clamp(s, f.scale_lo, f.scale_hi);
      const float error =
          code_error(f.codes, at, w + g * f.group, f.group, d * static_cast<float>(scale));
      if (!(error < best)) continue;
      best = error;
      to.scale[g] = scale;
    }
    const float scale = d * static_cast<float>(to.scale[g]);
    assign_codes(f.codes, at, f.group, scale, to.q + g * f.group);
    total += best;
  }
  return total;
}

/// Returns the d with the least error for the integers of `from`, and each group's best scale for
/// its codes.
float refit(const ScaledFormat& f, const float* x, const float* w, const Scaled& from,
            float* targets) {
  double sum_xv = 0;
  double sum_vv = 0;
  for (int g = 0; g < kSuper / f.group; ++g) {
    double xq = 0;
    double qq = 0;
    for (int i = g * f.group; i < (g + 1) * f.group; ++i) {
      const float q = value_of(f.codes, from.q[i]);
      xq += static_cast<double>(w[i]) * x[i] * q;
      qq += static_cast<double>(w[i]) * q * q;
    }
    if (qq > 0) targets[g] = static_cast<float>(xq / qq);
    sum_xv += from.scale[g] * xq;
    sum_vv += static_cast<double>(from.scale[g]) * from.scale[g] * qq;
  }
  return sum_vv > 0 ? static_cast<float>(sum_xv / sum_vv) : 0;
}

Scaled fit_scaled(const ScaledFormat& f, const float* x) {
  float w[kSuper];
  importance(x, kSuper, w);
  float targets[16] = {};
  float extreme = 0;
  for (int g = 0; g < kSuper / f.group; ++g) {
    targets[g] = fit_scale(f.codes, x + g * f.group, w + g * f.group, f.group);
    if (std::fabs(targets[g]) > std::fabs(extreme)) extreme = targets[g];
  }
  Scaled best;
  if (extreme == 0) {
    assign_groups(f, x, w, targets, best);
    return best;
  }
  float best_error = INFINITY;
  for (const int end : {f.scale_lo, f.scale_hi}) {
    float group_scales[16];
    std::copy(std::begin(targets), std::end(targets), group_scales);
    float d = extreme / static_cast<float>(end);
    for (int round = 0; round < kRounds; ++round) {
      Scaled now;
      now.d = float_to_half(d);
      const float error = assign_groups(f, x, w, group_scales, now);
      if (!(error < best_error)) break;
      best_error = error;
      best = now;
      d = refit(f, x, w, now, group_scales);
    }
  }
  return best;
}

/// Codes with weight = d * scale[g] * code - dmin * minimum[g], both integers in [0, most].
struct Lined {
  std::uint16_t d = 0;
  std::uint16_t dmin = 0;
  int scale[16] = {};
  int minimum[16] = {};
  std::int8_t q[kSuper] = {};
};
struct LinedFormat {
  int group;
  int codes_hi;
  int most;
};

float assign_lines(const LinedFormat& f, const float* x, const float* w, const Line* targets,
                   Lined& to) {
  const float d = half_to_float(to.d);
  const float dmin = half_to_float(to.dmin);
  const auto whole = [&](float v, float unit) {
    const float ideal = unit != 0 ? v / unit : 0;
    return static_cast<int>(std::clamp(std::nearbyint(ideal), 0.0f, static_cast<float>(f.most)));
  };
  float total = 0;
  for (int g = 0; g < kSuper / f.group; ++g) {
    const float* at = x + g * f.group;
    const int scale0 = whole(targets[g].scale, d);
    const int minimum0 = whole(targets[g].minimum, dmin);
    float best = INFINITY;
    for (int s = std::max(scale0 - 1, 0); s <= std::min(scale0 + 1, f.most); ++s) {
      for (int m = std::max(minimum0 - 1, 0); m <= std::min(minimum0 + 1, f.most); ++m) {
        const Line line{d * static_cast<float>(s), dmin * static_cast<float>(m)};
        const float error = line_error(f.codes_hi, at, w + g * f.group, f.group, line);
        if (!(error < best)) continue;
        best = error;
        to.scale[g] = s;
        to.minimum[g] = m;
      }
    }
    const Line line{d * static_cast<float>(to.scale[g]), dmin * static_cast<float>(to.minimum[g])};
    assign_line_codes(f.codes_hi, at, f.group, line, to.q + g * f.group);
    total += best;
  }
  return total;
}

/// Finds the halves with the least error for the integers of `from`: two unknowns, d and dmin.
bool refit_lines(const LinedFormat& f, const float* x, const float* w, const Lined& from, float& d,
                 float& dmin) {
  double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
  for (int i = 0; i < kSuper; ++i) {
    const int g = i / f.group;
    const double a = static_cast<double>(from.scale[g]) * from.q[i];
    const double b = from.minimum[g];
    const double weight = w[i];
    const double value = x[i];
    aa += weight * a * a;
    ab += weight * a * b;
    bb += weight * b * b;
    xa += weight * a * value;
    xb += weight * b * value;
  }
  const double determinant = aa * bb - ab * ab;
  if (!(determinant > 1e-9 * aa * bb)) {
    if (!(aa > 0) || bb > 0) return false;
    d = static_cast<float>(xa / aa);
    return true;
  }
  d = static_cast<float>((xa * bb - xb * ab) / determinant);
  dmin = static_cast<float>((xa * ab - xb * aa) / determinant);
  return d > 0 && dmin >= 0;
}

/// Finds the best line of each group for the codes it has.
void refit_groups(const LinedFormat& f, const float* x, const float* w, const Lined& from,
                  Line* targets) {
  for (int g = 0; g < kSuper / f.group; ++g) {
    double n = 0, q = 0, qq = 0, s = 0, xq = 0;
    for (int i = g * f.group; i < (g + 1) * f.group; ++i) {
      const double weighted = static_cast<double>(w[i]) * from.q[i];
      n += w[i];
      q += weighted;
      qq += weighted * from.q[i];
      s += static_cast<double>(w[i]) * x[i];
      xq += weighted * x[i];
    }
    const double determinant = n * qq - q * q;
    if (!(determinant > 0)) continue;
    const double scale = (n * xq - s * q) / determinant;  // above 0: codes rise with x
    const double minimum = (q * xq - qq * s) / determinant;
    if (minimum >= 0) {
      targets[g] = {static_cast<float>(scale), static_cast<float>(minimum)};
    }
  }
}

Lined fit_lined(const LinedFormat& f, const float* x) {
  float w[kSuper];
  importance(x, kSuper, w);
  Line targets[16];
  float scale = 0;
  float minimum = 0;
  for (int g = 0; g < kSuper / f.group; ++g) {
    targets[g] = fit_line(f.codes_hi, x + g * f.group, w + g * f.group, f.group, true);
    scale = std::max(scale, targets[g].scale);
    minimum = std::max(minimum, targets[g].minimum);
  }
  float d = scale / static_cast<float>(f.most);
  float dmin = minimum / static_cast<float>(f.most);
  Lined best;
  float best_error = INFINITY;
  for (int round = 0; round < kRounds; ++round) {
    Lined now;
    now.d = float_to_half(d);
    now.dmin = float_to_half(dmin);
    const float error = assign_lines(f, x, w, targets, now);
    if (!(error < best_error)) break;
    best_error = error;
    best = now;
    if (!refit_lines(f, x, w, now, d, dmin)) break;
    refit_groups(f, x, w, now, targets);
  }
  return best;
}

/// Packs the 12 bytes of Q4_K and Q5_K (see scale_min in dequantize_k.cpp).
void put_scales_k4(const Lined& from, std::uint8_t* out) {
  for (int j = 0; j < 4; ++j) {
    out[j] = static_cast<std::uint8_t>(from.scale[j] | (from.scale[j + 4] >> 4) << 6);
    out[j + 4] = static_cast<std::uint8_t>(from.minimum[j] | (from.minimum[j + 4] >> 4) << 6);
    out[j + 8] =
        static_cast<std::uint8_t>((from.scale[j + 4] & 15) | (from.minimum[j + 4] & 15) << 4);
  }
}

void put_low_nibbles(const std::int8_t* q, std::uint8_t* out) {
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 32; ++i) {
      out[32 * j + i] =
          static_cast<std::uint8_t>((q[64 * j + i] & 15) | (q[64 * j + 32 + i] & 15) << 4);
    }
  }
}

}  // namespace

void to_q2_k(const float* x, std::uint8_t* out) {
  const Lined fit = fit_lined({16, 3, 15}, x);
  std::memset(out, 0, 80);
  for (int g = 0; g < 16; ++g) {
    out[g] = static_cast<std::uint8_t>(fit.scale[g] | fit.minimum[g] << 4);
  }
  for (int e = 0; e < kSuper; ++e) {
    out[16 + e / 128 * 32 + e % 32] |= static_cast<std::uint8_t>(fit.q[e] << (e % 128 / 32 * 2));
  }
  put_u16(out + 80, fit.d);
  put_u16(out + 82, fit.dmin);
}

void to_q3_k(const float* x, std::uint8_t* out) {
  const Scaled fit = fit_scaled({16, {-4, 3}, -32, 31}, x);
  std::memset(out, 0, 110);
  for (int e = 0; e < kSuper; ++e) {
    const int code = fit.q[e] + 4;
    out[e % 32] |= static_cast<std::uint8_t>((code >> 2) << (e / 32));
    out[32 + e / 128 * 32 + e % 32] |= static_cast<std::uint8_t>((code & 3) << (e % 128 / 32 * 2));
  }
  for (int g = 0; g < 16; ++g) {
    const int scale = fit.scale[g] + 32;
    out[96 + g % 8] |= static_cast<std::uint8_t>((scale & 15) << (g / 8 * 4));
    out[104 + g % 4] |= static_cast<std::uint8_t>((scale >> 4) << (2 * (g / 4)));
  }
  put_u16(out + 108, fit.d);
}

void to_q4_k(const float* x, std::uint8_t* out) {
  const Lined fit = fit_lined({32, 15, 63}, x);
  put_u16(out, fit.d);
  put_u16(out + 2, fit.dmin);
  put_scales_k4(fit, out + 4);
  put_low_nibbles(fit.q, out + 16);
}

void to_q5_k(const float* x, std::uint8_t* out) {
  const Lined fit = fit_lined({32, 31, 63}, x);
  put_u16(out, fit.d);
  put_u16(out + 2, fit.dmin);
  put_scales_k4(fit, out + 4);
  std::memset(out + 16, 0, 32);
  for (int e = 0; e < kSuper; ++e) {
    out[16 + e % 32] |= static_cast<std::uint8_t>((fit.q[e] >> 4 & 1) << (e / 32));
  }
  put_low_nibbles(fit.q, out + 48);
}

void to_q6_k(const float* x, std::uint8_t* out) {
  const Scaled fit = fit_scaled({16, {-32, 31}, -128, 127}, x);
  std::memset(out, 0, 192);
  for (int e = 0; e < kSuper; ++e) {
    const int code = fit.q[e] + 32;
    const int half = e / 128;
    const int in_half = e % 128;
    out[half * 64 + in_half % 64] |= static_cast<std::uint8_t>((code & 15) << (in_half / 64 * 4));
    out[128 + half * 32 + in_half % 32] |=
        static_cast<std::uint8_t>((code >> 4) << (in_half / 32 * 2));
  }
  for (int g = 0; g < 16; ++g) out[192 + g] = static_cast<std::uint8_t>(fit.scale[g]);
  put_u16(out + 208, fit.d);
}

void to_iq4_xs(const float* x, std::uint8_t* out) {
  const Scaled fit = fit_scaled({32, {0, 15, kIq4Values}, -32, 31}, x);
  put_u16(out, fit.d);
  std::uint16_t high = 0;
  std::memset(out + 4, 0, 4);
  for (int g = 0; g < 8; ++g) {
    const int scale = fit.scale[g] + 32;
    high = static_cast<std::uint16_t>(high | (scale >> 4) << (2 * g));
    out[4 + g / 2] |= static_cast<std::uint8_t>((scale & 15) << (4 * (g % 2)));
    for (int i = 0; i < 16; ++i) {
      out[8 + g * 16 + i] =
          static_cast<std::uint8_t>(fit.q[g * 32 + i] | fit.q[g * 32 + 16 + i] << 4);
    }
  }
  put_u16(out + 2, high);
}

}  // namespace holdfast::gguf
