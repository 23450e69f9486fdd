#pragma once
// The count of groups that were committed and synced: in the row of log_mark, written in the
// groups' own transactions, and in the file control.mark (log_mark.h). Comparing the two finds a
// log that ends too early. Used on the store's thread.

#include <cstdint>
#include <optional>
#include <string>

#include "control/store/connection.h"
#include "control/store/disk.h"
#include "control/store/log_mark.h"
#include "control/store/summed.h"

namespace holdfast::store {

inline constexpr Columns kGroupCountSet{"synced"};
inline constexpr Columns kGroupCountKey{"id"};

/// The number of the last group that was committed, stored in its own transaction.
class GroupCount {
 public:
  explicit GroupCount(Connection& connection) : connection_(connection) {}
  Result<void> prepare();
  /// Compares the database with its log mark, which is opened.
  Result<void> compare(Disk& disk, const std::string& state_dir);

  /// Counts the group in its own transaction, which is going to be synced.
  Result<void> count() {
    return count_synced_.values(mark_others_).set("synced", synced_ + 1).key("id", 1).run();
  }
  /// Writes the mark of a counted group that is on the disk.
  void note_synced() { mark_.write({++synced_, epoch_}); }
  /// Notes a new epoch, whose group was counted and has taken in what was lost.
  void note_epoch(std::int64_t epoch);
  /// Moves the log into the main file as far as readers allow, and then syncs the mark.
  Result<void> checkpoint(int mode);
  /// Syncs the mark.
  void sync() { mark_.sync(); }

  /// Returns the highest epoch that was ever given, as far as the mark knows.
  std::int64_t epoch() const { return epoch_; }
  /// Returns the loss that this opening found, while it is not in the database yet.
  const std::optional<LogLoss>& found_loss() const { return found_loss_; }

 private:
  Connection& connection_;
  LogMark mark_;
  std::int64_t synced_ = 0;                   // groups that were ever committed and synced
  std::optional<std::uint64_t> mark_others_;  // part of log_mark's checksum without `synced`
  std::int64_t epoch_ = 0;
  std::optional<LogLoss> found_loss_;
  SummedUpdate<kGroupCountSet, kGroupCountKey> count_synced_;
};

}  // namespace holdfast::store
