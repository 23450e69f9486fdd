#pragma once
// What the machine's memory gives when it is only read: the yardstick of decoding.

#include "shared/base/thread_pool.h"
#include "worker/backend/cpu/memory.h"

namespace holdfast::cli {

/// One thread may use it; it has a team of its own.
class MemoryRate {
 public:
  /// Takes kBytes of memory at the first measurement; none there: every rate is 0.
  explicit MemoryRate(int threads);
  /// Reads for about 50 ms and says how much a second, in GB.
  double gb_s();

  static constexpr std::size_t kBytes = std::size_t{512} << 20;  // beyond any shared cache

 private:
  double read_once();  // seconds
  ThreadPool team_;
  cpu::Region region_;
  bool asked_ = false;
};

}  // namespace holdfast::cli
