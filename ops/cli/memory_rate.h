#pragma once
// The rate at which the machine's memory can be read alone: the yardstick of decoding.

#include "shared/base/thread_pool.h"
#include "worker/backend/cpu/memory.h"

namespace holdfast::cli {

/// Measures on a thread pool of its own. One thread may use it.
class MemoryRate {
 public:
  /// Allocates kBytes at the first measurement; if that fails, every rate is 0.
  explicit MemoryRate(int threads);
  /// Reads for about 50 ms; returns GB a second.
  double gb_s();

  static constexpr std::size_t kBytes = std::size_t{512} << 20;  // beyond any shared cache

 private:
  double read_once();  // seconds
  ThreadPool team_;
  cpu::Region region_;
  bool allocated_ = false;
};

}  // namespace holdfast::cli
