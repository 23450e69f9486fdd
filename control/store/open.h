#pragma once
// Opens control.db: pragmas set and read back, identity, version, migrations.

#include <memory>
#include <string>

#include "control/store/disk.h"
#include "control/store/sqlite.h"

namespace holdfast::store {

/// Closes a database when its pointer goes.
struct CloseDb {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using Db = std::unique_ptr<sqlite3, CloseDb>;

/// Opens (or makes) DIR/control.db; the caller must hold its lock. Errors as Store::open.
Result<Db> open_database(Disk& disk, const std::string& state_dir);

/// Number of migrations in this program = user_version of a current database.
int schema_version();

}  // namespace holdfast::store
