#pragma once
// The two files of a database that a standby writes as its primary does.

#include <memory>
#include <string>
#include <string_view>

#include "control/replication/state_files.h"
#include "shared/base/result.h"

namespace holdfast::replication {

/// Files that a primary's changes are written to. One thread.
class CopiedFiles {
 public:
  CopiedFiles(std::string state_dir, StateFiles& files)
      : state_dir_(std::move(state_dir)), files_(files) {}

  /// Begins a new copy in STATE/copy; the one before stays until this one is complete. kIo.
  Result<void> begin();
  /// Writes a list of changes. kFileInvalid, kIo: the copy is of no use any more.
  Result<void> apply(std::string_view changes);
  /// Syncs what was written. kIo.
  Result<void> sync();
  /// Puts the copy in the place of the state directory's database; one that was never a copy is
  /// moved to STATE/before-standby. kIo.
  Result<void> complete();
  /// Closes the files of a copy that is of no use.
  void close();
  bool is_open() const { return open_[0] != nullptr; }

 private:
  std::string state_dir_;
  StateFiles& files_;
  std::unique_ptr<CopyFile> open_[2];  // by DatabaseFile
};

}  // namespace holdfast::replication
