#pragma once
// Bounds how often a peer may cause a log line: one line a minute for each subject, with the number
// of events. A peer that sends a million malformed messages gets a number and does not fill the
// disk.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::log {

/// Bounds log lines by subject: up to kSubjectsMax subjects; events of further ones count as one
/// subject. Not thread-safe.
class LineBound {
 public:
  static constexpr std::int64_t kPeriodUs = 60'000'000;
  static constexpr std::size_t kSubjectsMax = 64;
  static constexpr std::string_view kOthers = "others";

  struct Line {
    std::string subject;
    std::uint64_t count = 0;  // since the subject's previous line
  };
  /// Counts one event. Returns the line to write now, with count 0 if there is none.
  Line count(std::string_view subject, std::int64_t now_us);
  /// Returns lines for events that were counted and not written, of subjects whose minute is over.
  std::vector<Line> due(std::int64_t now_us);

 private:
  struct Entry {
    std::int64_t written_us = 0;
    std::uint64_t silent = 0;  // events since the last line
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace holdfast::log
