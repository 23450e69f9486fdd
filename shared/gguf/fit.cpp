// A search over scales: for fixed codes the best scale follows from sums (least squares). So each
// candidate scale gives codes, the codes give the candidate's error, and the best one is refined.

#include "shared/gguf/fit.h"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <optional>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "shared/base/check.h"

namespace holdfast::gguf {
namespace {

// Four lanes on every machine: wider ones would change the order of the sums.
typedef float F4 __attribute__((vector_size(16)));

constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, ties to even

inline F4 splat(float v) {
  return F4{v, v, v, v};
}
inline F4 load4(const float* x) {
  F4 v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
inline void store4(float* to, const F4& v) {
  std::memcpy(to, &v, sizeof v);
}
inline float sum_of(const F4& v) {
  return (v[0] + v[1]) + (v[2] + v[3]);
}
inline F4 clamped(const F4& v, const F4& lo, const F4& hi) {
#if defined(__SSE2__)
  return _mm_min_ps(_mm_max_ps(v, lo), hi);
#else
  const F4 above = v < lo ? lo : v;
  return above > hi ? hi : above;
#endif
}
inline F4 rounded(const F4& v, const F4& lo, const F4& hi) {
  // Clamped first: the trick holds up to 2^22 only.
  return (clamped(v, lo, hi) + splat(kRounder)) - splat(kRounder);
}

/// Returns the index of the nearest entry of an ascending table; the lower one half-way, as in
/// Nearest.
int nearest_entry(const std::int8_t* table, int last, float v) {
  int low = 0;
  int high = last;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (v < static_cast<float>(table[middle]) ? high : low) = middle;
  }
  return v - static_cast<float>(table[low]) <= static_cast<float>(table[high]) - v ? low : high;
}

/// Returns `height` where v > at, else 0.
inline F4 step_above(const F4& v, const F4& at, const F4& height) {
#if defined(__SSE2__)
  return _mm_and_ps(_mm_cmpgt_ps(v, at), height);
#else
  return v > at ? height : splat(0);
#endif
}

/// Finds the code values nearest to v: rounding, or for a table a sum of steps half-way between
/// entries.
class Nearest {
 public:
  explicit Nearest(const CodeRange& range)
      : lo_(splat(static_cast<float>(range.table ? range.table[0] : range.lo))),
        hi_(splat(static_cast<float>(range.hi))),
        steps_(range.table ? range.hi : 0) {
    for (int i = 0; i < steps_; ++i) {
      const auto here = static_cast<float>(range.table[i]);
      const auto next = static_cast<float>(range.table[i + 1]);
      at_[i] = splat((here + next) / 2);
      height_[i] = splat(next - here);
    }
  }
  F4 of(const F4& v) const {
    if (steps_ == 0) return rounded(v, lo_, hi_);
    F4 out = lo_;
    for (int i = 0; i < steps_; ++i) out += step_above(v, at_[i], height_[i]);
    return out;
  }

 private:
  F4 lo_;
  F4 hi_;
  int steps_;
  F4 at_[15];
  F4 height_[15];
};

struct Fit {
  float scale = 0;
  float gain = 0;  // how far the squared error is below that of zero weights
};

/// Returns the best scale for the codes that one scale gives.
Fit try_scale(const Nearest& nearest, const float* x, const float* w, int n, float inverse) {
  F4 xq = splat(0);
  F4 qq = splat(0);
  for (int i = 0; i < n; i += 4) {
    const F4 v = load4(x + i);
    const F4 q = nearest.of(v * splat(inverse));
    const F4 wq = load4(w + i) * q;
    xq += v * wq;
    qq += q * wq;
  }
  const float sum_xq = sum_of(xq);
  const float sum_qq = sum_of(qq);
  if (!(sum_xq * sum_xq > 0)) return {};  // also for codes of 0 alone
  return {sum_xq / sum_qq, sum_xq * (sum_xq / sum_qq)};
}

/// A line and its squared error.
struct LineFit {
  Line line;
  float error = 0;
};

LineFit try_line(int hi, const float* x, const float* w, int n, Line from, bool positive) {
  const F4 top = splat(static_cast<float>(hi));
  const F4 inverse = splat(1 / from.scale);
  const F4 minimum = splat(from.minimum);
  F4 sum_w = splat(0), sum_q = splat(0), sum_qq = splat(0);
  F4 sum_x = splat(0), sum_xq = splat(0), sum_xx = splat(0);
  for (int i = 0; i < n; i += 4) {
    const F4 v = load4(x + i);
    const F4 q = rounded((v + minimum) * inverse, splat(0), top);
    const F4 weight = load4(w + i);
    const F4 wq = weight * q;
    const F4 wv = weight * v;
    sum_w += weight;
    sum_q += wq;
    sum_qq += wq * q;
    sum_x += wv;
    sum_xq += wv * q;
    sum_xx += wv * v;
  }
  const float count = sum_of(sum_w);
  const float q = sum_of(sum_q), qq = sum_of(sum_qq), s = sum_of(sum_x), xq = sum_of(sum_xq);
  const float determinant = count * qq - q * q;
  LineFit out{from, 0};
  if (determinant > 0) {
    out.line.scale = (count * xq - s * q) / determinant;
    out.line.minimum = (q * xq - qq * s) / determinant;
  }
  if (positive && out.line.minimum < 0) {
    out.line.minimum = 0;
    out.line.scale = xq / qq;  // not 0 / 0: codes of 0 alone have no determinant
  }
  if (!(out.line.scale > 0)) out.line = from;
  const float a = out.line.scale, b = out.line.minimum;
  out.error = sum_of(sum_xx) + a * (a * qq - 2 * xq) + b * (b * count + 2 * s - 2 * a * q);
  return out;
}

}  // namespace

void importance(const float* x, int n, float* w) {
  F4 sum = splat(0);
  for (int i = 0; i < n; i += 4) sum += load4(x + i) * load4(x + i);
  const float rms = std::sqrt(sum_of(sum) / static_cast<float>(n));
  const float inverse = rms > 0 ? 1 / rms : 0;
  for (int i = 0; i < n; ++i) w[i] = 1 + std::fabs(x[i]) * inverse;
}

float code_error(const CodeRange& range, const float* x, const float* w, int n, float scale) {
  const F4 by = splat(scale != 0 ? 1 / scale : 0);
  F4 error = splat(0);
  if (range.table != nullptr) {
    const Nearest nearest(range);
    for (int i = 0; i < n; i += 4) {
      const F4 v = load4(x + i);
      const F4 d = v - splat(scale) * nearest.of(v * by);
      error += load4(w + i) * d * d;
    }
    return sum_of(error);
  }
  const F4 lo = splat(static_cast<float>(range.lo));
  const F4 hi = splat(static_cast<float>(range.hi));
  for (int i = 0; i < n; i += 4) {
    const F4 v = load4(x + i);
    const F4 d = v - splat(scale) * rounded(v * by, lo, hi);
    error += load4(w + i) * d * d;
  }
  return sum_of(error);
}

void assign_codes(const CodeRange& range, const float* x, int n, float scale, std::int8_t* q) {
  CHECK(n % 4 == 0);
  const float by = scale != 0 ? 1 / scale : 0;
  if (range.table != nullptr) {
    for (int i = 0; i < n; ++i) {
      q[i] = static_cast<std::int8_t>(nearest_entry(range.table, range.hi, x[i] * by));
    }
    return;
  }
  const F4 lo = splat(static_cast<float>(range.lo));
  const F4 hi = splat(static_cast<float>(range.hi));
  for (int i = 0; i < n; i += 4) {
    float values[4];
    store4(values, rounded(load4(x + i) * splat(by), lo, hi));
    for (int j = 0; j < 4; ++j) q[i + j] = static_cast<std::int8_t>(values[j]);
  }
}

namespace {

float extreme_of(const float* x, int n) {
  float extreme = 0;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

/// Returns the best of the fits that map the extreme to an end of the codes, or up to one and a
/// half codes inside or beyond it.
Fit best_of_ends(const CodeRange& range, const Nearest& nearest, const float* x, const float* w,
                 int n, float extreme) {
  const auto low = static_cast<float>(range.table ? range.table[0] : range.lo);
  const auto high = static_cast<float>(range.table ? range.table[range.hi] : range.hi);
  constexpr int kSteps = 5;
  const float unit = 0.3f * (range.table ? (high - low) / static_cast<float>(range.hi) : 1);
  Fit best;
  for (const float end : {low, high}) {
    for (int i = -kSteps; i <= kSteps; ++i) {
      const float at = end + unit * static_cast<float>(i);
      const Fit fit = try_scale(nearest, x, w, n, at / extreme);
      if (fit.gain > best.gain) best = fit;
    }
  }
  return best;
}

}  // namespace

float fit_scale(const CodeRange& range, const float* x, const float* w, int n) {
  CHECK(n % 4 == 0 && n <= kMostInGroup);
  const float extreme = extreme_of(x, n);
  if (extreme == 0 || !std::isfinite(1 / extreme)) return 0;
  const Nearest nearest(range);
  Fit best = best_of_ends(range, nearest, x, w, n, extreme);
  for (int round = 0; round < 3 && best.scale != 0; ++round) {
    const Fit fit = try_scale(nearest, x, w, n, 1 / best.scale);
    if (!(fit.gain > best.gain)) break;
    best = fit;
  }
  return best.scale;
}

float line_error(int hi, const float* x, const float* w, int n, Line line) {
  const F4 by = splat(line.scale > 0 ? 1 / line.scale : 0);
  const F4 top = splat(static_cast<float>(hi));
  F4 error = splat(0);
  for (int i = 0; i < n; i += 4) {
    const F4 v = load4(x + i) + splat(line.minimum);
    const F4 d = v - splat(line.scale) * rounded(v * by, splat(0), top);
    error += load4(w + i) * d * d;
  }
  return sum_of(error);
}

void assign_line_codes(int hi, const float* x, int n, Line line, std::int8_t* q) {
  CHECK(n % 4 == 0);
  const F4 by = splat(line.scale > 0 ? 1 / line.scale : 0);
  const F4 top = splat(static_cast<float>(hi));
  for (int i = 0; i < n; i += 4) {
    float values[4];
    store4(values, rounded((load4(x + i) + splat(line.minimum)) * by, splat(0), top));
    for (int j = 0; j < 4; ++j) q[i + j] = static_cast<std::int8_t>(values[j]);
  }
}

namespace {

struct Bounds {
  float low, high;
};

Bounds bounds_of(const float* x, int n) {
  Bounds out{x[0], x[0]};
  for (int i = 1; i < n; ++i) {
    out.low = x[i] < out.low ? x[i] : out.low;
    out.high = x[i] > out.high ? x[i] : out.high;
  }
  return out;
}

/// Takes a fit that is better than the best so far; returns true if it is.
bool improve(std::optional<LineFit>& best, const LineFit& fit) {
  if (best && !(fit.error < best->error)) return false;
  best = fit;
  return true;
}

/// Returns the line that spreads [low, low + width] over so many codes. With fewer codes than `hi`
/// the range is cut at both ends alike, unless its minimum is fixed.
Line line_of(float codes, int hi, float low, float width, bool fixed_minimum) {
  Line line{width / codes, -low};
  if (!fixed_minimum) line.minimum -= (static_cast<float>(hi) - codes) * line.scale / -2;
  return line;
}

}  // namespace

Line fit_line(int hi, const float* x, const float* w, int n, bool positive) {
  CHECK(n % 4 == 0 && n <= kMostInGroup);
  CHECK(hi > 1);
  const Bounds bounds = bounds_of(x, n);
  const float low = positive && bounds.low > 0 ? 0 : bounds.low;
  const float width = bounds.high - low;
  if (!(width > 0) || !std::isfinite(static_cast<float>(hi) / width)) return {0, -low};
  constexpr int kSteps = 5;
  std::optional<LineFit> best;
  for (int i = -kSteps; i <= kSteps; ++i) {
    const float codes = static_cast<float>(hi) + 0.2f * static_cast<float>(i);
    Line from = line_of(codes, hi, low, width, positive);
    for (int round = 0; round < 2; ++round) {
      const LineFit fit = try_line(hi, x, w, n, from, positive);
      if (!improve(best, fit)) break;
      from = fit.line;
    }
  }
  return best->line;
}

}  // namespace holdfast::gguf
