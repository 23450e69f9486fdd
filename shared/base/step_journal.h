#pragma once
// Which work was in the step that was running when a process died: a small shared mapping of a
// file. The kernel keeps what was stored in it, however the process ends; whoever reaps the process
// reads it. Nothing is synced: after a power loss there is no process to blame.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast {

/// The mark of one choice of one request: FNV-1a, 64 bits, of the id and the number.
std::uint64_t step_mark(std::string_view request_id, std::int32_t choice);

class StepJournal {
 public:
  /// Makes the file new. kIo with path and cause.
  static Result<std::unique_ptr<StepJournal>> create(const std::string& path);
  ~StepJournal();
  StepJournal(const StepJournal&) = delete;
  StepJournal& operator=(const StepJournal&) = delete;

  /// One thread: a step with these marks begins; more than fit are cut, and that is recorded.
  void begin(const std::vector<std::uint64_t>& marks);
  void end();

 private:
  explicit StepJournal(void* page) : page_(page) {}
  void* page_;
};

struct StepRecord {
  bool in_step = false;              // a step was running at the end
  bool complete = true;              // all marks of it are there
  std::vector<std::uint64_t> marks;  // of that step
};
/// What process `pid` left. nullopt: no such file, another process's, or not readable.
std::optional<StepRecord> read_step_journal(const std::string& path, std::int64_t pid);

}  // namespace holdfast
