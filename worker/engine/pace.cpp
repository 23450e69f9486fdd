#include "worker/engine/pace.h"

#include <algorithm>

namespace holdfast::engine {
namespace {

constexpr double kNewest = 0.3;          // weight of the newest sample
constexpr std::int64_t kSampleFrom = 8;  // prompt tokens that say something of their cost
constexpr std::int64_t kStep = 16;       // rows that kernels like together
constexpr double kUneven = 1.4;          // what each waiting prompt allows, in steps without any
constexpr std::int32_t kBehindMost = 2;  // of those that count

void blend(double& known, double sample) {
  known = known < 0 ? sample : known + kNewest * (sample - known);
}

}  // namespace

/// Of so many rows, or of the next smaller number that has been seen.
double Pace::decode_us(std::int32_t decoding) const {
  const auto seen = static_cast<std::int32_t>(decode_us_.size()) - 1;
  for (std::int32_t n = std::min(decoding, seen); n > 0; --n) {
    const double us = decode_us_[static_cast<std::size_t>(n)];
    if (us >= 0) return us;
  }
  return 0;
}

double Pace::bound_us(const Work& planned) const {
  if (gap_us_ != kEven) return static_cast<double>(gap_us_);
  const double alone = decode_us(planned.decoding);
  if (alone <= 0) return static_cast<double>(kEvenUnknownUs);
  const double steps = 1 + kUneven * std::clamp(planned.behind, 1, kBehindMost);
  return std::max(steps * alone, static_cast<double>(kEvenLeastUs));
}

void Pace::learn(const Work& work, std::int64_t took_us) {
  const std::int64_t tokens = work.prompt[0] + work.prompt[1];
  const auto took = static_cast<double>(took_us);
  if (tokens == 0) {
    const auto n = static_cast<std::size_t>(work.decoding);
    if (decode_us_.size() <= n) decode_us_.resize(n + 1, -1);
    blend(decode_us_[n], took);
    return;
  }
  // A mixture says nothing of either kind.
  if (tokens < kSampleFrom || (work.prompt[0] > 0 && work.prompt[1] > 0)) return;
  const double each = std::max(took - decode_us(work.decoding), 0.0) / static_cast<double>(tokens);
  blend(token_us_[work.prompt[1] > 0 ? 1 : 0], each);
}

std::int64_t Pace::allow(const Work& planned, bool reads, std::int64_t wanted) const {
  if (gap_us_ == 0 || planned.decoding == 0) return wanted;
  const bool first = planned.prompt[0] + planned.prompt[1] == 0;
  double each = token_us_[reads ? 1 : 0];
  if (each < 0) each = token_us_[reads ? 0 : 1];  // better than nothing
  if (each < 0) return first ? std::min(wanted, kUnknown) : 0;
  double left = bound_us(planned) - decode_us(planned.decoding);
  for (const std::size_t kind : {0u, 1u}) {
    left -= static_cast<double>(planned.prompt[kind]) * std::max(token_us_[kind], 0.0);
  }
  if (left >= each * static_cast<double>(wanted)) return wanted;
  const auto fit = static_cast<std::int64_t>(std::max(left, 0.0) / each);
  return std::min(wanted, std::max(fit / kStep * kStep, first ? kLeast : 0));
}

}  // namespace holdfast::engine
