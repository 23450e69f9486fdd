#pragma once
// Fences order the attempts of all requests: (boot epoch, counter). The epoch is raised durably
// before the first socket is bound, so a counter that starts at 1 never repeats a fence.

#include "control/core/types.h"

namespace holdfast::core {

/// Hands out fences, each greater than all before, over restarts too. Not thread-safe.
class FenceAllocator {
 public:
  void set_epoch(std::uint64_t epoch) {
    epoch_ = epoch;
    counter_ = 0;
  }
  std::uint64_t epoch() const { return epoch_; }
  Fence next() { return Fence{epoch_, ++counter_}; }

 private:
  std::uint64_t epoch_ = 0;
  std::uint64_t counter_ = 0;
};

}  // namespace holdfast::core
