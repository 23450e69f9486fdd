#pragma once
// The supervisor's side of liveness probes (shared/base/probe.h): probes one child periodically and
// counts how long it has owed an answer while it could have given one. One thread.

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "shared/base/process_view.h"
#include "shared/base/result.h"

namespace holdfast::cli {

/// The probes of one child at a time: prepare(), started(), then look() until it has ended(). One
/// thread.
class LivenessProbe {
 public:
  LivenessProbe() = default;

  /// Makes the socket for the next child; returns the child's end, open until started().
  Result<int> prepare();
  /// Starts watching the child, which runs as `pid`. Nothing is counted until its first answer: it
  /// may have much to read before its loop begins.
  void started(pid_t pid);
  void ended();

  /// Reads answers and probes again. To be called about every `period_ms`: time by which the caller
  /// is late does not count, nor does time in which the child waited for a processor or a disk.
  void look(std::int64_t now_ms, std::int64_t period_ms);
  /// Milliseconds for which the child has owed an answer, as counted.
  std::int64_t silent_ms() const { return silent_us_ / 1000; }

 private:
  bool was_answered();

  OwnedFd ours_, theirs_;
  std::optional<ProcessView> process_;
  bool armed_ = false;          // the child has answered once
  bool probe_pending_ = false;  // an answer is owed
  std::int64_t silent_us_ = 0;
  std::int64_t looked_ms_ = 0;
};

}  // namespace holdfast::cli
