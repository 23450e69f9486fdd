#pragma once
// Bounds how often what comes from outside may write to a log: one line a minute for each subject,
// with how many there were. Whoever sends a million malformed messages gets a number, not the disk.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::log {

/// One thread at a time. Keeps kSubjectsMax subjects; what comes beyond them is counted as one.
class LineBound {
 public:
  static constexpr std::int64_t kPeriodUs = 60'000'000;
  static constexpr std::size_t kSubjectsMax = 64;
  static constexpr std::string_view kOthers = "others";

  struct Line {
    std::string subject;
    std::uint64_t count = 0;  // since the subject's line before
  };
  /// Counts one. The line to write now, with count 0 if there is none to write.
  Line count(std::string_view subject, std::int64_t now_us);
  /// Lines for what was counted and not written, of subjects whose minute is over.
  std::vector<Line> due(std::int64_t now_us);

 private:
  struct Entry {
    std::int64_t written_us = 0;
    std::uint64_t silent = 0;  // counted since
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace holdfast::log
