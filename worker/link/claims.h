#pragma once
// Loads in progress of all workers on this machine, whichever daemon they belong to, in a file that
// they share: memory that one of them is about to take is not there for another, though the kernel
// still calls it available.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/host_memory.h"
#include "shared/base/result.h"

namespace holdfast::worker {

/// The file, opened once, before the process is confined. Without one (nowhere to put it, or it is
/// somebody else's) every claim is granted: the daemon's own books still hold.
class Claims {
 public:
  /// `path` empty: the place that all workers of this user share, of this machine for root.
  explicit Claims(const std::string& path = "");
  ~Claims();
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  /// Before a load takes `bytes` of `pools`. kMemoryExhausted with the numbers, if they are not
  /// there beside what others are about to take. Waits for others for two seconds at most.
  Result<void> claim(std::int64_t bytes, const std::vector<MemoryPool>& pools);
  /// The load is over: what it took is missing in what is available.
  void release();

 private:
  bool lock() const;
  int fd_ = -1;
};

}  // namespace holdfast::worker
