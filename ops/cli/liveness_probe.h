#pragma once
// The supervisor's side of liveness probes (shared/base/probe.h): asks one child again and again
// and counts how long it has owed an answer while it could have given one. One thread.

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "shared/base/process_view.h"
#include "shared/base/result.h"

namespace holdfast::cli {

class LivenessProbe {
 public:
  LivenessProbe() = default;

  /// Makes the socket for the next child; the child's end, open until started().
  Result<int> prepare();
  /// The child runs as this process. Until its first answer nothing is counted: it may have much to
  /// read before its loop begins.
  void started(pid_t pid);
  void ended();

  /// Reads answers, asks again. To be called every `period_ms` or so: time that the caller was late
  /// by does not count, nor does time that the child waited for a processor or for a disk.
  void look(std::int64_t now_ms, std::int64_t period_ms);
  /// Time that it has owed an answer for, as counted.
  std::int64_t silent_ms() const { return silent_us_ / 1000; }

 private:
  bool was_answered();

  OwnedFd ours_, theirs_;
  std::optional<ProcessView> process_;
  bool armed_ = false;  // it has answered once
  bool asked_ = false;  // and has not answered this time
  std::int64_t silent_us_ = 0;
  std::int64_t looked_ms_ = 0;
};

}  // namespace holdfast::cli
