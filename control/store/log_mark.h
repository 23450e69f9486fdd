#pragma once
// STATE/control.mark: how many groups were committed and synced. The database counts them too, in
// the same transactions. A database with fewer groups than the mark has lost the end of its log
// (deleted, cut, overwritten by an older one), which SQLite cannot know: to it a shorter log is a
// log that ends there.
//
// The mark is written after the sync that it counts, so it never claims more than the disk had. It
// costs no sync of its own: it is synced when the daemon is idle and with checkpoints, and may lag
// after a power failure. Then it may miss a loss, but never reports one that did not happen. It
// holds for one file: a copy elsewhere, or a restored database, has none.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "control/store/disk.h"

namespace holdfast::store {

/// A loss that was found when a database was opened: its log ends too early.
struct LogLoss {
  std::int64_t expected = 0;  // synced groups, as the mark had them
  std::int64_t found = 0;     // as the database has them
  std::int64_t at_ms = 0;     // wall clock of that start
};

/// The mark of one database. Used on the store's thread.
class LogMark {
 public:
  /// Groups and epoch as the mark has them.
  struct Claim {
    std::int64_t synced = 0;
    std::int64_t epoch = 0;  // the highest that was given
  };
  LogMark() = default;
  /// Opens the mark of the database with that identity in DIR/control.db. Without a file that can
  /// be written it does nothing.
  static LogMark open(Disk& disk, const std::string& state_dir, const std::string& database);

  /// The claim about this database; none if the file is new, torn in both slots, or of another.
  const std::optional<Claim>& claim() const { return claim_; }
  /// The claim about another database that was in this same file, for example a new one whose data
  /// was all in its log. None if there is a claim().
  const std::optional<Claim>& of_another() const { return of_another_; }
  /// Writes over the older of the two slots: whatever a failure makes of it, the other one stays.
  void write(const Claim& claim);
  /// Syncs the file if something was written since the last sync.
  void sync();

 private:
  std::unique_ptr<DiskFile> file_;
  std::string database_;
  std::uint64_t inode_ = 0;
  std::optional<Claim> claim_, of_another_;
  int next_slot_ = 0;
  bool unsynced_ = false;
};

/// The path of the mark in a state directory.
std::string log_mark_path(const std::string& state_dir);

}  // namespace holdfast::store
