#pragma once
// One owner for a state directory: flock on control.lock, whose content names the holder.

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace holdfast::store {

/// The lock, held until it is destroyed (or the process dies). Move only.
class StateLock {
 public:
  /// Acquires the lock. `role` is "daemon" or "cli". Waits up to wait_ms while the holder's role is
  /// "cli", and for a second at most for a daemon, which may be dying.
  /// kConflict names the owner's pid and role; kIo: directory not writable, with the path.
  static Result<StateLock> acquire(const std::string& state_dir, const std::string& role,
                                   std::int64_t wait_ms = 5000);
  StateLock(StateLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  StateLock& operator=(StateLock&&) = delete;
  StateLock(const StateLock&) = delete;
  ~StateLock();

 private:
  explicit StateLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace holdfast::store
