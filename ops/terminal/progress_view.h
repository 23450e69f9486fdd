#pragma once
// How far long work is, on stderr: one line that changes on a terminal, else a line for each state.

#include <chrono>
#include <cstdint>
#include <string>

namespace holdfast::cli {

/// One look at the work.
struct ProgressLook {
  std::string name;   // of the work
  std::string state;  // "downloading"
  std::int64_t done_bytes = 0;
  std::int64_t bytes = 0;  // of all; 0: not known yet
  bool transfers = false;  // in this state: the rate and the time left are shown
  std::string note;        // after all else
};

/// The line on stderr. Not thread-safe.
class ProgressView {
 public:
  explicit ProgressView(bool quiet) : quiet_(quiet) {}
  ~ProgressView() { clear(); }
  ProgressView(const ProgressView&) = delete;
  ProgressView& operator=(const ProgressView&) = delete;

  void show(const ProgressLook& look);
  /// Removes the line of a terminal, so that another one can be printed.
  void clear();

 private:
  double bytes_s(std::int64_t done);
  /// "downloading 37 % of 138.1 MiB, 8.1 MiB/s, 11 s left"
  std::string line_of(const ProgressLook& look);

  bool quiet_;
  bool drawn_ = false;
  std::string state_;
  std::chrono::steady_clock::time_point at_{};
  std::int64_t before_ = 0;
  double speed_ = 0;  // smoothed
};

}  // namespace holdfast::cli
