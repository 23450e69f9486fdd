#pragma once
// The logs of the processes that `serve` starts: each has a size bound and a few older files.

#include <cstdint>
#include <string>
#include <utility>

namespace holdfast::cli {

/// The most that the logs of one process take on the disk.
struct LogBounds {
  std::int64_t bytes = 64LL << 20;  // of NAME.log, roughly: it is looked at once a second
  std::int64_t files = 3;           // NAME.log.1, the newest, and so on; 0 = none
};

/// Bounds the logs of a folder while a program runs.
class LogRotation {
 public:
  LogRotation(std::string folder, const LogBounds& bounds)
      : folder_(std::move(folder)), bounds_(bounds) {}
  /// Looks at the logs, once a second at most: call it in each turn of the loop.
  void step();

 private:
  std::string folder_;
  LogBounds bounds_;
  std::int64_t looked_us_ = 0;
};

/// Moves the contents of logs that are too long to NAME.log.1 and so on, and empties them: a
/// process that writes to one goes on at its beginning. A line written in that moment may be lost.
/// On a full disk the contents are dropped.
void rotate_logs(const std::string& folder, const LogBounds& bounds);

}  // namespace holdfast::cli
