#pragma once
// Copies of the database that an upgrade of its schema leaves behind, for the way back.

#include <cstdint>
#include <string>
#include <vector>

#include "control/store/disk.h"
#include "control/store/sqlite.h"
#include "shared/base/result.h"

namespace holdfast::store {

/// Number of copies that stay; an older one goes when a new one is whole.
inline constexpr std::size_t kUpgradeCopies = 3;

/// A copy of the database, made before a migration.
struct UpgradeCopy {
  std::string path;         // DIR/control.schema-N.TIME.db, TIME as 20261128T044500Z
  std::int64_t schema = 0;  // the version that it has
};

/// Copies the database as it is to DIR/control.schema-N.TIME.db and syncs the copy, which is not
/// checked: `db restore` does that. kDiskFull, before anything is written, unless there is room for
/// the copy and for a migration that writes every page anew; kIo.
Result<UpgradeCopy> copy_before_upgrade(Disk& disk, sqlite3* db, const std::string& state_dir);

/// The copies in a state directory, the newest first. Files that are no database are left out.
std::vector<UpgradeCopy> upgrade_copies(const std::string& state_dir);

/// Removes the oldest copies beyond kUpgradeCopies.
void remove_old_copies(const std::string& state_dir);

/// The refusal of a database of a newer schema (kVersionNewer). It names the newest copy that this
/// program can open, and the command that puts it back.
Error newer_schema(const std::string& state_dir, std::int64_t found, std::int64_t newest);

}  // namespace holdfast::store
