#pragma once
// A circuit breaker: a worker or model that fails again and again gets no work for a while, longer
// each time, and then one piece of work at a time until one succeeds. Each worker and each model
// has one.

#include <cstdint>

#include "control/core/config.h"

namespace holdfast::core {

/// Counts failures of one thing and stops work for it for a time after too many. Not thread-safe.
class Breaker {
 public:
  /// Counts a failure. Returns true if the breaker is open from here on.
  bool failed(const Config& config, std::int64_t now_us);
  void succeeded() { *this = Breaker(); }
  /// Returns true if work may be given out, with `running` pieces of it out already.
  bool allows(std::int64_t now_us, std::int64_t running) const {
    return !tripped_ || (now_us >= open_until_us_ && running == 0);
  }
  /// Returns true while no work is given out at all.
  bool open(std::int64_t now_us) const { return tripped_ && now_us < open_until_us_; }
  bool tripped() const { return tripped_; }
  std::int64_t failures() const { return failures_; }  // in a row
  std::int64_t open_until_us() const { return open_until_us_; }

 private:
  std::int64_t failures_ = 0;
  std::int64_t open_until_us_ = 0;
  bool tripped_ = false;
};

}  // namespace holdfast::core
