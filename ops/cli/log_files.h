#pragma once
// The logs of the processes that `serve` starts: each has a bound and a few files before it.

#include <cstdint>
#include <string>

namespace holdfast::cli {

struct LogBounds {
  std::int64_t bytes = 64LL << 20;  // of NAME.log, roughly: it is looked at once a second
  std::int64_t files = 3;           // NAME.log.1, the newest, and so on; 0 = none is kept
};

/// Moves what is in logs that are too long to NAME.log.1 and so on, and empties them: who writes to
/// one goes on at its beginning. A line written in that moment may be lost. On a full disk nothing
/// is kept.
void rotate_logs(const std::string& folder, const LogBounds& bounds);

}  // namespace holdfast::cli
