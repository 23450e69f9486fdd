#pragma once
// STATE/standby.json: whether a state directory is a standby's copy, and of whom.

#include <cstdint>
#include <optional>
#include <string>

#include "control/replication/state_files.h"
#include "shared/base/result.h"

namespace holdfast::replication {

/// The content of STATE/standby.json: this directory is a standby's, or was made a primary's.
struct StandbyNote {
  bool is_standby = false;
  std::string primary;     // the URL that it was, or is, the standby of
  std::uint64_t term = 0;  // of that primary
  bool complete = false;   // control.db is a whole copy
  bool in_step = false;    // when the primary last spoke
  std::string boot;  // of the machine that wrote it: what was not synced is gone after another
};
/// nullopt: there is none.
std::optional<StandbyNote> read_standby_note(const std::string& state_dir,
                                             StateFiles& files = machine_files());
/// kIo.
Result<void> write_standby_note(const std::string& state_dir, const StandbyNote& note,
                                StateFiles& files = machine_files());

}  // namespace holdfast::replication
