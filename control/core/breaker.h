#pragma once
// A circuit breaker: who fails again and again gets no work for a while, longer each time, and then
// one piece of work at a time until one succeeds. One for each worker and each model.

#include <cstdint>

#include "control/core/config.h"

namespace holdfast::core {

class Breaker {
 public:
  /// True if it is open from here on.
  bool failed(const Config& config, std::int64_t now_us);
  void succeeded() { *this = Breaker(); }
  /// May work be given out, with `running` pieces of it out already?
  bool allows(std::int64_t now_us, std::int64_t running) const {
    return !tripped_ || (now_us >= open_until_us_ && running == 0);
  }
  /// Neither trusted again nor given anything now.
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
