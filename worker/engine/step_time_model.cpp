#include "worker/engine/step_time_model.h"

#include <algorithm>

namespace holdfast::engine {
namespace {

constexpr double kNewest = 0.3;            // weight of the newest sample
constexpr std::int64_t kSampleFrom = 8;    // prompt tokens that say something of their cost
constexpr std::int64_t kStep = 16;         // rows that kernels like together
constexpr double kUneven = 1.0;            // what each waiting prompt allows, in steps without any
constexpr std::int32_t kInPrefillMax = 2;  // waiting prompts that count, at most
constexpr double kPrefillHeavySpeedup =
    2;                               // of prefill-heavy prompts, while one kind is not measured
constexpr double kTokenLeastUs = 1;  // the least that is believed of a prompt's token
constexpr double kOlder = 0.95;      // weight of an extra-row sample after the next one
constexpr double kUnused = 0.998;    // and after a step without: what was too dear is tried again
constexpr double kAtFirstRows = 8;   // number of rows that the first estimate counts for

void blend(double& measured, double sample) {
  measured = measured < 0 ? sample : measured + kNewest * (sample - measured);
}

}  // namespace

/// The time of so many rows of a kind, or of the next smaller number that was measured.
double StepTimeModel::decode_us(std::size_t kind, std::int32_t rows) const {
  const std::vector<double>& measured = decode_us_[kind];
  const auto largest_measured = static_cast<std::int32_t>(measured.size()) - 1;
  for (std::int32_t n = std::min(rows, largest_measured); n > 0; --n) {
    const double us = measured[static_cast<std::size_t>(n)];
    if (us >= 0) return us;
  }
  return 0;
}

double StepTimeModel::decode_us(const Work& work) const {
  double us = 0;
  for (const std::size_t kind : {0u, 1u}) {
    us += decode_us(kind, work.decoding[kind]) * (1 + work.extra_rows[kind] * row_share(kind == 1));
  }
  return us;
}

/// The time of a prompt's token of a kind. While that is not measured, an estimate from the other
/// kind that is no less than the other's; below 0: neither is measured.
double StepTimeModel::token_us(std::size_t kind) const {
  const double kind_us = token_us_[kind], other = token_us_[1 - kind];
  if (kind_us >= 0 || other < 0) return kind_us;
  return kind == 0 ? other * kPrefillHeavySpeedup : other;
}

void StepTimeModel::learn_decoding(std::size_t kind, std::int32_t rows, double took_us) {
  const auto n = static_cast<std::size_t>(rows);
  if (decode_us_[kind].size() <= n) decode_us_[kind].resize(n + 1, -1);
  blend(decode_us_[kind][n], took_us);
}

double StepTimeModel::bound_us(const Work& planned) const {
  if (gap_us_ != kEven) return static_cast<double>(gap_us_);
  const double alone = decode_us(0, planned.decoding[0]) + decode_us(1, planned.decoding[1]);
  if (alone <= 0) return static_cast<double>(kEvenUnknownUs);
  const double steps = 1 + kUneven * std::clamp(planned.in_prefill, 1, kInPrefillMax);
  return std::max(steps * alone, static_cast<double>(kEvenLeastUs));
}

/// The part of each kind's rows in the time of a step without prompts: in proportion where both are
/// measured, the rest after the measured one where one is, else half.
std::array<double, 2> StepTimeModel::shares_of(const Work& work, double took_us) const {
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

void StepTimeModel::learn(const Work& work, std::int64_t took_us) {
  const std::int64_t tokens = work.prompt[0] + work.prompt[1];
  const auto took = static_cast<double>(took_us);
  if (tokens == 0 && work.extra_rows[0] + work.extra_rows[1] > 0)
    return learn_extra_rows(work, took);
  if (tokens == 0) {
    const std::array<double, 2> shares = shares_of(work, took);
    for (const std::size_t kind : {0u, 1u}) {
      if (work.decoding[kind] == 0) continue;
      learn_decoding(kind, work.decoding[kind], shares[kind]);
      extra_row_cost_[kind].fade(kUnused);
    }
    return;
  }
  if (tokens >= kSampleFrom) learn_prompt(work, took);
}

/// Learns from what is left of a step for its prompts, divided between both kinds in proportion to
/// their measured cost.
void StepTimeModel::learn_prompt(const Work& work, double took_us) {
  const bool measured = token_us(0) >= 0;
  const std::array<double, 2> each = {measured ? token_us(0) : kPrefillHeavySpeedup,
                                      measured ? token_us(1) : 1};
  const double all =
      static_cast<double>(work.prompt[0]) * each[0] + static_cast<double>(work.prompt[1]) * each[1];
  const double left = std::max(took_us - decode_us(work), 0.0);
  for (const std::size_t kind : {0u, 1u}) {
    if (work.prompt[kind] == 0) continue;
    blend(token_us_[kind], std::max(each[kind] * left / all, kTokenLeastUs));
  }
}

/// Learns from a step of one kind.
void StepTimeModel::learn_extra_rows(const Work& work, double took_us) {
  const std::size_t kind = work.extra_rows[1] > 0 ? 1 : 0;
  if (work.decoding[1 - kind] > 0) return;
  const double rows = work.extra_rows[kind];
  const double without = decode_us(kind, work.decoding[kind]);
  if (without <= 0) {  // drafts in every step: take row_share() for true
    return learn_decoding(kind, work.decoding[kind], took_us / (1 + rows * row_share(kind == 1)));
  }
  ExtraRowCost& cost = extra_row_cost_[kind];
  cost.fade(kOlder);
  cost.rows += rows;
  // A single step that something else held up must not count for hundreds.
  cost.steps += std::clamp(took_us / without - 1, 0.0, kRowMost * rows);
}

double StepTimeModel::row_share(bool prefill_heavy) const {
  const ExtraRowCost& cost = extra_row_cost_[prefill_heavy ? 1 : 0];
  const double share = (cost.steps + kAtFirstRows * kRowAtFirst) / (cost.rows + kAtFirstRows);
  return std::clamp(share, kRowLeast, kRowMost);
}

std::int64_t StepTimeModel::allow(const Work& planned, bool prefill_heavy,
                                  std::int64_t requested) const {
  if (gap_us_ == 0 || planned.all_decoding() == 0) return requested;
  const bool first = planned.prompt[0] + planned.prompt[1] == 0;
  const double each = token_us(prefill_heavy ? 1 : 0);
  if (each < 0) return first ? std::min(requested, kUnknown) : 0;
  double left = bound_us(planned) - decode_us(planned);
  for (const std::size_t kind : {0u, 1u}) {
    left -= static_cast<double>(planned.prompt[kind]) * token_us(kind);
  }
  if (left >= each * static_cast<double>(requested)) return requested;
  const auto fit = static_cast<std::int64_t>(std::max(left, 0.0) / each);
  return std::min(requested, std::max(fit / kStep * kStep, first ? kLeast : 0));
}

}  // namespace holdfast::engine
