#include "control/core/stats.h"

#include <algorithm>

namespace holdfast::core {

void MinuteRate::turn(std::int64_t second) {
  if (second < second_) return;  // monotonic time does not go back; what is late counts as now
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

}  // namespace holdfast::core
