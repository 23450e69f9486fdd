#pragma once
// What the machine counts for the one who looks: how long things took, how much happened in the
// last minute, what was refused. Fed by step() with its own time; nothing here is decided by.

#include <array>
#include <cstdint>

#include "shared/base/histogram.h"
#include "shared/base/result.h"

namespace holdfast::core {

/// Events of the last minute, in buckets of a second.
class MinuteRate {
 public:
  static constexpr std::int64_t kSeconds = 60;
  void add(std::int64_t now_us, std::uint64_t count) {
    if (now_us / 1'000'000 != second_) turn(now_us / 1'000'000);
    counts_[static_cast<std::size_t>(second_ % kSeconds)] += count;
  }
  /// Of the last 60 seconds, the current one included.
  std::uint64_t count(std::int64_t now_us) const;
  /// The same per second; in the first minute since `started_us`, over the time since then.
  double per_second(std::int64_t now_us, std::int64_t started_us) const;

 private:
  void turn(std::int64_t second);
  std::array<std::uint64_t, kSeconds> counts_{};
  std::int64_t second_ = 0;  // of the newest bucket
};

/// Times in microseconds, as the daemon sees them: a token counts from its arrival here on.
struct Stats {
  Histogram queue_wait;    // acceptance to the first dispatch of a request
  Histogram first_token;   // arrival of a submission to the first token of each choice
  Histogram token_gap;     // between two tokens of a choice; a lost worker's pause is in it
  Histogram end_to_end;    // arrival of a submission to its end
  Histogram model_switch;  // a model that was wanted, or lost its last worker, is ready
  MinuteRate accepted, ended, tokens;
  std::array<std::uint64_t, static_cast<std::size_t>(Errc::kInternal) + 1> refused{};  // by Errc
};

}  // namespace holdfast::core
