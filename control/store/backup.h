#pragma once
// Complete copies of control.db: made while the daemon writes, checked before they get their name,
// put back only with the lock held.

#include <cstdint>
#include <memory>
#include <string>

#include "control/store/check.h"
#include "control/store/sqlite.h"
#include "shared/base/result.h"

namespace holdfast::store {

/// A backup that was made.
struct BackupReport {
  std::string path;
  std::int64_t pages = 0;
  std::int64_t bytes = 0;
};

/// One copy in progress, on the connection that writes: commits between two steps flow into the
/// copy. Used on the thread of that connection; must be destroyed before it.
class Backup {
 public:
  /// Begins a copy, which grows in PATH.part. kIo: not writable, or PATH exists. A note in the
  /// state directory lets a later start remove what a killed process left (remove_unfinished).
  static Result<std::unique_ptr<Backup>> begin(sqlite3* source, const std::string& state_dir,
                                               const std::string& path);
  ~Backup();
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;

  /// Copies the next pages (a millisecond or so). Returns true when all are copied and the file is
  /// synced and has its name.
  Result<bool> step();
  const BackupReport& report() const { return report_; }
  /// How far a copy is: 0 of 0 before the first step.
  struct Progress {
    std::int64_t done_bytes = 0, bytes = 0;
  };
  Progress progress() const;

 private:
  Backup() = default;
  Result<void> finish();

  sqlite3* copy_ = nullptr;
  sqlite3_backup* backup_ = nullptr;
  std::int64_t page_bytes_ = 0;
  bool named_ = false;  // complete, under its name
  std::string note_;    // file that names the copy while it grows; empty: there is none
  BackupReport report_;
};

/// The copy that an operator elsewhere reads, while it is made.
inline std::string outgoing_path(const std::string& state_dir) {
  return state_dir + "/outgoing.db";
}

/// Removes what backups and checks of killed processes left. The lock must be held.
void remove_unfinished(const std::string& state_dir);

/// A restore that was done.
struct RestoreReport {
  std::string previous_dir;  // folder with the previous files; empty if there were none
  std::uint64_t epoch = 0;
};

/// Puts FILE in the place of DIR/control.db. kConflict while a daemon owns the directory (its pid
/// is named), or another program reads what it left. FILE is checked first; the previous files are
/// copied to DIR/before-restore-TIME. A crash at any moment, or an error, leaves the old or the new
/// database, whole. The epoch goes beyond every one that the old database had, so that no worker
/// takes the restored daemon for an older one.
Result<RestoreReport> restore_file(const std::string& state_dir, const std::string& file,
                                   std::int64_t wall_ms);

}  // namespace holdfast::store
