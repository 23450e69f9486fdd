#include "control/core/stats.h"

#include <algorithm>

namespace holdfast::core {

void MinuteRate::turn(std::int64_t second) {
  if (second < second_) return;  // monotonic time does not go back; a late event counts as now
  const std::int64_t empty = std::min(second - second_, kSeconds);
  for (std::int64_t i = 0; i < empty; ++i) {
    counts_[static_cast<std::size_t>((second - i) % kSeconds)] = 0;
  }
  second_ = second;
}

std::uint64_t MinuteRate::count(std::int64_t now_us) const {
  const std::int64_t now = std::max(now_us / 1'000'000, second_);
  std::uint64_t total = 0;
  for (std::int64_t second = std::max<std::int64_t>(now - kSeconds + 1, 0); second <= second_;
       ++second) {
    total += counts_[static_cast<std::size_t>(second % kSeconds)];
  }
  return total;
}

double MinuteRate::per_second(std::int64_t now_us, std::int64_t started_us) const {
  const std::int64_t window_us = std::clamp<std::int64_t>(now_us - started_us, 1, 59'500'000);
  return static_cast<double>(count(now_us)) * 1e6 / static_cast<double>(window_us);
}

void ModelStats::merge(const ModelStats& other) {
  queue_wait.merge(other.queue_wait);
  first_token.merge(other.first_token);
  token_gap.merge(other.token_gap);
  prefill.merge(other.prefill);
  decode.merge(other.decode);
  end_to_end.merge(other.end_to_end);
  prompt_tokens += other.prompt_tokens;
  generated_tokens += other.generated_tokens;
  for (std::size_t i = 0; i < ended.size(); ++i) ended[i] += other.ended[i];
  for (std::size_t i = 0; i < finished.size(); ++i) finished[i] += other.finished[i];
}

ModelStats& Stats::model(const std::string& name) {
  const auto found = models.find(name);
  if (found != models.end()) return found->second;
  return models[models.size() < kModelsMax ? name : std::string(kOther)];
}

PrefixStats& Stats::prefix_group(const std::string& name) {
  const auto found = prefix_groups.find(name);
  if (found != prefix_groups.end()) return found->second;
  return prefix_groups[prefix_groups.size() < kGroupsMax ? name : std::string(kOther)];
}

ModelStats Stats::all() const {
  ModelStats sum;
  for (const auto& [name, stats] : models) sum.merge(stats);
  return sum;
}

}  // namespace holdfast::core
