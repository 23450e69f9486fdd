#pragma once
// Loads in progress of all workers on this machine, whichever daemon they belong to, in a file that
// they share: memory that one load is about to take is not free for another, though the kernel
// still calls it available.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/host_memory.h"
#include "shared/base/result.h"

namespace holdfast::worker {

/// The file, opened once, before the process is confined. Without one (it cannot be made, or it is
/// another user's) every claim is granted: the daemon's own accounting still holds. Not
/// thread-safe.
class Claims {
 public:
  /// `path` empty: the default, shared by all workers of this user; for root, of this machine.
  explicit Claims(const std::string& path = "");
  ~Claims();
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  /// Claims `bytes` of each of `pools` before a load takes them. kMemoryExhausted with the numbers,
  /// if they are not available besides what other loads are about to take. Waits for the file's
  /// lock for two seconds at most, then grants the claim.
  Result<void> claim(std::int64_t bytes, const std::vector<MemoryPool>& pools);
  /// Ends the claim after the load: its memory is missing in what is available by then.
  void release();

 private:
  bool lock() const;
  int fd_ = -1;
};

}  // namespace holdfast::worker
