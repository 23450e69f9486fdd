#pragma once
// The delay before a dead child is started again. Pure, so that it is tested without waiting.

#include <algorithm>
#include <cstdint>

namespace holdfast::cli {

/// Delays of restarts: none at the first death; for deaths in a row, each soon after the start,
/// 100, 200, 400, 800, 1000 ms and so on for ever, `max_ms` at most. A life of kHealthyMs starts
/// the count anew.
class RestartPolicy {
 public:
  explicit RestartPolicy(std::int64_t max_ms = kMaxMs) : max_ms_(max_ms) {}
  static constexpr std::int64_t kHealthyMs = 5'000;
  static constexpr std::int64_t kFirstMs = 100;
  static constexpr std::int64_t kMaxMs = 1'000;

  /// Delay in ms before the next start of a child that lived for `lived_ms`.
  std::int64_t on_death(std::int64_t lived_ms) {
    if (lived_ms >= kHealthyMs) quick_deaths_ = 0;
    ++quick_deaths_;
    if (quick_deaths_ == 1) return 0;
    const int doublings = std::min(quick_deaths_ - 2, 10);
    return std::min(kFirstMs << doublings, max_ms_);
  }

 private:
  std::int64_t max_ms_;
  int quick_deaths_ = 0;
};

}  // namespace holdfast::cli
