#pragma once
// Finds out, at the start of a daemon, whether this machine is the primary of its pair, and runs as
// its standby until it is.

#include <atomic>
#include <memory>
#include <string>

#include "control/replication/record.h"
#include "shared/base/clock.h"
#include "shared/base/probe.h"
#include "shared/base/result.h"

namespace holdfast::replication {

/// The pair as the command line has it; texts are empty where it says nothing.
struct PairPlan {
  std::string state_dir;
  std::string url;       // of this machine's listener, as others reach it
  std::string record;    // address of the record
  std::string primary;   // --standby-of
  std::string key_file;  // of the role standby

  bool is_pair() const { return !record.empty() || !primary.empty() || !key_file.empty(); }
};
/// kUsage: what is missing, or does not go together.
Result<void> check_plan(const PairPlan& plan);

/// Returns the store of the plan's record (CHECKs that it has one).
std::unique_ptr<RecordStore> open_record(const PairPlan& plan);

/// The role that was found.
struct PairRole {
  bool is_primary = false;  // else: a stop was requested
  std::string url;
  std::uint64_t term = 0;
  std::string in_step;  // the standby that the record has
};
/// Returns once this machine is the primary, or `stop` is set. Without a record only an operator
/// makes a standby the primary. While a record cannot be reached nobody becomes it. kUsage, kIo;
/// kCorrupt if the record names this machine and it has no database.
Result<PairRole> find_role(const PairPlan& plan, RecordStore* record, const Clock& clock,
                           const std::atomic<bool>& stop, ProbeAnswer& probe);

}  // namespace holdfast::replication
