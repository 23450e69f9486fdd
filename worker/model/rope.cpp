// Rotary frequencies and the ways to stretch them, in float64 and without libm: they affect every
// token of every answer.

#include <algorithm>
#include <cstring>

#include "shared/gguf/quants.h"
#include "worker/model/exact_math.h"
#include "worker/model/take.h"

namespace holdfast::model {

namespace {

constexpr double kTwoPi = 6.283185307179586;

double round_down(double x) {
  const auto whole = static_cast<double>(static_cast<std::int64_t>(x));
  return whole > x ? whole - 1 : whole;
}

/// Llama 3: short wave lengths stay, long ones are divided, with a blend in between.
double llama3(double frequency, const plan::RopeSpec& s) {
  const auto original = static_cast<double>(s.original_context);
  const double wavelength = kTwoPi / frequency;
  if (wavelength < original / s.high_factor) return frequency;
  if (wavelength > original / s.low_factor) return frequency / s.factor;
  const double smooth = (original / wavelength - s.low_factor) / (s.high_factor - s.low_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

/// YaRN (Peng et al. 2023): pairs that turn often stay, those that turn seldom are divided, with a
/// ramp between the pairs that turn beta_fast and beta_slow times in the original context.
class Yarn {
 public:
  Yarn(const plan::RopeSpec& spec, std::int64_t dims) : s_(spec) {
    const auto pair_of = [&](double rotations) {
      const double at = static_cast<double>(s_.original_context) / (rotations * kTwoPi);
      return static_cast<double>(dims) * exact_log(at) / (2 * exact_log(s_.base));
    };
    low_ = pair_of(s_.beta_fast);
    high_ = pair_of(s_.beta_slow);
    if (s_.whole_pairs) low_ = round_down(low_), high_ = -round_down(-high_);
    low_ = std::max(0.0, low_);
    high_ = std::min(static_cast<double>(dims - 1), high_);
  }
  double stretch(double frequency, std::int64_t pair) const {
    const double at = (static_cast<double>(pair) - low_) / std::max(0.001, high_ - low_);
    const double ramp_mix = (1 - std::clamp(at, 0.0, 1.0)) * s_.ext_factor;
    return frequency / s_.factor * (1 - ramp_mix) + frequency * ramp_mix;
  }

 private:
  const plan::RopeSpec& s_;
  double low_ = 0;
  double high_ = 0;
};

/// Divisors of the frequencies from a tensor, [dims / 2].
Result<std::vector<float>> divisors(Taker& take, const char* name, std::int64_t pairs) {
  HOLDFAST_TRY(const WeightRef ref, take.vector(name, pairs));
  const auto refuse = [&](const char* cause) {
    return Error{Errc::kFileInvalid, "build program " + std::string(take.file().name()) +
                                         ": tensor " + name + " " + cause};
  };
  std::vector<float> out(static_cast<std::size_t>(pairs));
  const auto bytes = gguf::row_bytes(ref.tensor->type, static_cast<std::uint64_t>(pairs));
  if (!bytes || ref.tensor->data.size() < *bytes) return refuse("has no data");
  HOLDFAST_CHECKED(gguf::dequantize_row(ref.tensor->type, ref.tensor->data.data(), out.data(),
                                        static_cast<std::uint64_t>(pairs)));
  for (const float f : out) {
    if (!(f > 0)) return refuse("holds a factor that is not positive");
  }
  return out;
}

void divide(std::vector<double>& frequencies, const std::vector<float>& by) {
  for (std::size_t i = 0; i < by.size(); ++i) frequencies[i] /= static_cast<double>(by[i]);
}

}  // namespace

namespace {

/// Factors of queries by position: the logarithm grows by steps of the original context.
std::vector<double> query_steps(const plan::RopeSpec& spec) {
  constexpr std::int64_t kPositions = 1 << 22, kStepsMost = 1 << 16;
  const std::int64_t steps = std::min(kPositions / spec.original_context + 2, kStepsMost);
  std::vector<double> all;
  for (std::int64_t i = 1; i <= steps; ++i) {
    all.push_back(1 + spec.temperature * exact_log(static_cast<double>(i)));
  }
  return all;
}

/// Stretches frequencies by the formula, or by the numbers of the file.
Result<void> scale(Rope& rope, Taker& take, const plan::ModelShape& shape,
                   const plan::RopeSpec& spec) {
  const std::int64_t pairs = spec.dims / 2;
  std::vector<double>& f = rope.inv_freq;
  if (spec.scaling == plan::RopeScaling::kLongrope) {
    rope.inv_freq_long = f;
    rope.long_from = spec.original_context;
    HOLDFAST_TRY(const auto far, divisors(take, "rope_factors_long.weight", pairs));
    HOLDFAST_TRY(const auto near, divisors(take, "rope_factors_short.weight", pairs));
    divide(rope.inv_freq_long, far);
    divide(f, near);
  } else if (spec.scaling == plan::RopeScaling::kLlama3 && shape.has_rope_freqs) {
    HOLDFAST_TRY(const auto factors, divisors(take, "rope_freqs.weight", pairs));
    divide(f, factors);  // the file's own numbers outrank the formula
  } else if (spec.scaling == plan::RopeScaling::kLlama3) {
    for (double& x : f) x = llama3(x, spec);
  } else if (spec.scaling == plan::RopeScaling::kLinear) {
    for (double& x : f) x /= spec.factor;
  } else if (spec.scaling == plan::RopeScaling::kYarn) {
    const Yarn yarn(spec, spec.dims);
    for (std::size_t i = 0; i < f.size(); ++i) {
      f[i] = yarn.stretch(f[i], static_cast<std::int64_t>(i));
    }
  }
  return {};
}

}  // namespace

Result<Rope> make_rope(Taker& take, const plan::ModelShape& shape, const plan::RopeSpec& spec) {
  const std::int64_t pairs = spec.dims / 2;
  Rope rope;
  rope.magnitude = spec.magnitude;
  const double log_base = exact_log(spec.base);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(spec.dims);
    rope.inv_freq.push_back(exact_exp(exponent * log_base));
  }
  if (spec.temperature > 0) {
    rope.step_length = spec.original_context;
    rope.query_steps = query_steps(spec);
  }
  HOLDFAST_CHECKED(scale(rope, take, shape, spec));
  return rope;
}

}  // namespace holdfast::model
