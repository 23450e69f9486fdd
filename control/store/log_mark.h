#pragma once
// STATE/control.mark: how many groups were committed and synced. The database counts them too, in
// the same transactions; a database that has fewer than the mark says has lost the end of its log
// (deleted, cut, overwritten by an older one), which SQLite cannot know: to it a shorter log is a
// log that ends there.
//
// The mark is written after the sync that it tells of, so it never says more than the disk had. It
// costs no sync of its own: it is synced when the daemon is idle and with checkpoints, and may lag
// behind after a power failure. Then it finds less, never something that is not so. It holds for
// one file: a copy elsewhere, or a restored database, has none.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "control/store/disk.h"

namespace holdfast::store {

/// What was found when a database was opened whose log ends too early.
struct LogLoss {
  std::int64_t expected = 0;  // synced groups, as the mark had them
  std::int64_t found = 0;     // as the database has them
  std::int64_t at_ms = 0;     // wall clock of that start
};

class LogMark {
 public:
  struct Claim {
    std::int64_t synced = 0;
    std::int64_t epoch = 0;  // the highest one that was given
  };
  LogMark() = default;
  /// For the database of that identity in DIR/control.db. Without a file that can be written it
  /// does nothing.
  static LogMark open(Disk& disk, const std::string& state_dir, const std::string& database);

  /// What the file says of this database; none if it is new, torn in both places, or another's.
  const std::optional<Claim>& claim() const { return claim_; }
  /// What it says of another database that was in this same file: of a new one whose log had all
  /// that it was, say. None if there is a claim.
  const std::optional<Claim>& of_another() const { return of_another_; }
  /// Over the older of the two places: whatever a failure makes of it, the other one stays.
  void write(const Claim& claim);
  /// On the disk, if something was written since.
  void sync();

 private:
  std::unique_ptr<DiskFile> file_;
  std::string database_;
  std::uint64_t inode_ = 0;
  std::optional<Claim> claim_, of_another_;
  int next_place_ = 0;
  bool unsynced_ = false;
};

/// The path of the mark in a state directory.
std::string log_mark_path(const std::string& state_dir);

}  // namespace holdfast::store
