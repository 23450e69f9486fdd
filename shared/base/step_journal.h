#pragma once
// Records which requests are in the running step, for blame when the process dies: a small shared
// mapping of a file. The kernel keeps its content however the process ends; the process that reaps
// it reads the file. Nothing is synced: after a power loss there is no process to blame.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast {

/// Returns the mark of one choice of one request: FNV-1a, 64 bits, of the id and the number.
std::uint64_t step_mark(std::string_view request_id, std::int32_t choice);

/// The journal of a running process. Written by one thread.
class StepJournal {
 public:
  /// Creates the file anew. kIo with path and cause.
  static Result<std::unique_ptr<StepJournal>> create(const std::string& path);
  ~StepJournal();
  StepJournal(const StepJournal&) = delete;
  StepJournal& operator=(const StepJournal&) = delete;

  /// Begins a step with these marks. More than fit are cut, and that is recorded. One thread.
  void begin(const std::vector<std::uint64_t>& marks);
  void end();

 private:
  explicit StepJournal(void* page) : page_(page) {}
  void* page_;
};

/// The content of a dead process's journal.
struct StepRecord {
  bool in_step = false;              // a step was running at the end
  bool complete = true;              // all its marks are there
  std::vector<std::uint64_t> marks;  // of that step
};
/// Returns the record of process `pid`. nullopt: no such file, another process's, or not readable.
std::optional<StepRecord> read_step_journal(const std::string& path, std::int64_t pid);

}  // namespace holdfast
