#pragma once
// The role that a machine of a pair has by the record: what it asks at a start, and what the answer
// makes of its state directory.

#include <cstdint>
#include <optional>
#include <string>

#include "control/replication/record.h"
#include "control/replication/standby_note.h"
#include "control/replication/state_files.h"

namespace holdfast::replication {

/// The first epoch of a term.
std::int64_t epoch_of_term(std::uint64_t term);
/// The term of an epoch.
std::uint64_t term_of_epoch(std::uint64_t epoch);

/// Asks who is the primary, once. A machine with a copy of another's database makes no record: its
/// primary is to do that.
RecordAnswer claim_role(RecordStore& record, const std::string& url,
                        const std::optional<StandbyNote>& note);

/// The role of a machine by the record.
struct FoundRole {
  bool is_primary = false;  // else: the standby of the record's primary
  std::uint64_t term = 0;
  std::string in_step;  // the standby that the record has
};
/// Takes the role that the answer of claim_role() gives (CHECKs that it is one): ends a takeover
/// that was cut short, and notes that this directory is a primary's. kConflict: it has a database
/// that never was of this pair. kCorrupt: the record names this machine and it has no database.
/// kIo.
Result<FoundRole> take_role(const std::string& state_dir, const std::string& url,
                            const RecordAnswer& answer, StateFiles& files = machine_files());

}  // namespace holdfast::replication
