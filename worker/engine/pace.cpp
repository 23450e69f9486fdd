#include "worker/engine/pace.h"

#include <algorithm>

namespace holdfast::engine {
namespace {

constexpr double kNewest = 0.3;          // weight of the newest sample
constexpr std::int64_t kSampleFrom = 8;  // prompt tokens that say something of their cost
constexpr std::int64_t kStep = 16;       // rows that kernels like together
constexpr double kUneven = 1.0;          // what each waiting prompt allows, in steps without any
constexpr std::int32_t kBehindMost = 2;  // of those that count
constexpr double kReadsFaster = 2;       // prompts of the kind that reads, while one is not known
constexpr double kTokenLeastUs = 1;      // no less than that is believed of a prompt's token
constexpr double kOlder = 0.95;          // what a sample of more rows is worth after the next one
constexpr double kUnused = 0.998;   // and after a step without: what was too dear is tried again
constexpr double kAtFirstRows = 8;  // for how many what is taken at first counts

void blend(double& known, double sample) {
  known = known < 0 ? sample : known + kNewest * (sample - known);
}

}  // namespace

/// Of so many rows of a kind, or of the next smaller number that has been seen.
double Pace::decode_us(std::size_t kind, std::int32_t rows) const {
  const std::vector<double>& known = decode_us_[kind];
  const auto seen = static_cast<std::int32_t>(known.size()) - 1;
  for (std::int32_t n = std::min(rows, seen); n > 0; --n) {
    const double us = known[static_cast<std::size_t>(n)];
    if (us >= 0) return us;
  }
  return 0;
}

double Pace::decode_us(const Work& work) const {
  double us = 0;
  for (const std::size_t kind : {0u, 1u}) {
    us += decode_us(kind, work.decoding[kind]) * (1 + work.more[kind] * row_share(kind == 1));
  }
  return us;
}

/// Of a prompt's token, as is known of its kind. While nothing is, no less than the other's; below
/// 0: of neither.
double Pace::token_us(std::size_t kind) const {
  const double own = token_us_[kind], other = token_us_[1 - kind];
  if (own >= 0 || other < 0) return own;
  return kind == 0 ? other * kReadsFaster : other;
}

void Pace::learn_decoding(std::size_t kind, std::int32_t rows, double took_us) {
  const auto n = static_cast<std::size_t>(rows);
  if (decode_us_[kind].size() <= n) decode_us_[kind].resize(n + 1, -1);
  blend(decode_us_[kind][n], took_us);
}

double Pace::bound_us(const Work& planned) const {
  if (gap_us_ != kEven) return static_cast<double>(gap_us_);
  const double alone = decode_us(0, planned.decoding[0]) + decode_us(1, planned.decoding[1]);
  if (alone <= 0) return static_cast<double>(kEvenUnknownUs);
  const double steps = 1 + kUneven * std::clamp(planned.behind, 1, kBehindMost);
  return std::max(steps * alone, static_cast<double>(kEvenLeastUs));
}

/// What each kind's rows took of a step without prompts: as it is known of both, what is left of
/// the one that is known, or half.
std::array<double, 2> Pace::shares_of(const Work& work, double took_us) const {
  if (work.decoding[1] == 0) return {took_us, 0};
  if (work.decoding[0] == 0) return {0, took_us};
  const double first = decode_us(0, work.decoding[0]), second = decode_us(1, work.decoding[1]);
  if (first > 0 && second > 0) {
    return {took_us * first / (first + second), took_us * second / (first + second)};
  }
  if (first > 0) return {std::min(first, took_us), std::max(took_us - first, 0.0)};
  if (second > 0) return {std::max(took_us - second, 0.0), std::min(second, took_us)};
  return {took_us / 2, took_us / 2};
}

void Pace::learn(const Work& work, std::int64_t took_us) {
  const std::int64_t tokens = work.prompt[0] + work.prompt[1];
  const auto took = static_cast<double>(took_us);
  if (tokens == 0 && work.more[0] + work.more[1] > 0) return learn_more(work, took);
  if (tokens == 0) {
    const std::array<double, 2> shares = shares_of(work, took);
    for (const std::size_t kind : {0u, 1u}) {
      if (work.decoding[kind] == 0) continue;
      learn_decoding(kind, work.decoding[kind], shares[kind]);
      more_[kind].fade(kUnused);
    }
    return;
  }
  if (tokens >= kSampleFrom) learn_prompt(work, took);
}

/// What is left of a step for its prompts, shared by both kinds as they are known to cost.
void Pace::learn_prompt(const Work& work, double took_us) {
  const bool known = token_us(0) >= 0;
  const std::array<double, 2> each = {known ? token_us(0) : kReadsFaster, known ? token_us(1) : 1};
  const double all =
      static_cast<double>(work.prompt[0]) * each[0] + static_cast<double>(work.prompt[1]) * each[1];
  const double left = std::max(took_us - decode_us(work), 0.0);
  for (const std::size_t kind : {0u, 1u}) {
    if (work.prompt[kind] == 0) continue;
    blend(token_us_[kind], std::max(each[kind] * left / all, kTokenLeastUs));
  }
}

/// From a step of one kind.
void Pace::learn_more(const Work& work, double took_us) {
  const std::size_t kind = work.more[1] > 0 ? 1 : 0;
  if (work.decoding[1 - kind] > 0) return;
  const double rows = work.more[kind];
  const double without = decode_us(kind, work.decoding[kind]);
  if (without <= 0) {  // guesses in every step: as it is taken to be
    return learn_decoding(kind, work.decoding[kind], took_us / (1 + rows * row_share(kind == 1)));
  }
  More& more = more_[kind];
  more.fade(kOlder);
  more.rows += rows;
  // One step that something else held up shall not count for hundreds.
  more.steps += std::clamp(took_us / without - 1, 0.0, kRowMost * rows);
}

double Pace::row_share(bool reads) const {
  const More& more = more_[reads ? 1 : 0];
  const double share = (more.steps + kAtFirstRows * kRowAtFirst) / (more.rows + kAtFirstRows);
  return std::clamp(share, kRowLeast, kRowMost);
}

std::int64_t Pace::allow(const Work& planned, bool reads, std::int64_t wanted) const {
  if (gap_us_ == 0 || planned.all_decoding() == 0) return wanted;
  const bool first = planned.prompt[0] + planned.prompt[1] == 0;
  const double each = token_us(reads ? 1 : 0);
  if (each < 0) return first ? std::min(wanted, kUnknown) : 0;
  double left = bound_us(planned) - decode_us(planned);
  for (const std::size_t kind : {0u, 1u}) {
    left -= static_cast<double>(planned.prompt[kind]) * token_us(kind);
  }
  if (left >= each * static_cast<double>(wanted)) return wanted;
  const auto fit = static_cast<std::int64_t>(std::max(left, 0.0) / each);
  return std::min(wanted, std::max(fit / kStep * kStep, first ? kLeast : 0));
}

}  // namespace holdfast::engine
