#include "control/store/open.h"

#include <sys/mman.h>

#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "control/store/migrations.h"
#include "control/store/row_checksum.h"
#include "control/store/store.h"
#include "control/store/upgrade_copy.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"

namespace holdfast::store {
namespace {

struct Pragma {
  const char* name;
  const char* value;
  const char* reads_as;  // the pragma's answer when it took effect
};
constexpr int kPageBytes = 4096;
constexpr int kCachePages = (16384 + 512) * 1024 / kPageBytes;  // cache_size and some for the log
// Set at each opening, and read back.
constexpr Pragma kPragmas[] = {
    {"journal_mode", "WAL", "wal"},     {"synchronous", "FULL", "2"},
    {"wal_autocheckpoint", "0", "0"},   {"mmap_size", "0", "0"},
    {"foreign_keys", "ON", "1"},        {"cell_size_check", "ON", "1"},
    {"trusted_schema", "OFF", "0"},     {"temp_store", "MEMORY", "2"},
    {"busy_timeout", "0", "0"},         {"journal_size_limit", "67108864", "67108864"},
    {"cache_size", "-16384", "-16384"},
};

Result<void> set_pragmas(sqlite3* db, const std::string& path) {
  for (const Pragma& p : kPragmas) {
    HOLDFAST_TRY(std::string set, query_text(db, std::string("PRAGMA ") + p.name + "=" + p.value));
    HOLDFAST_TRY(const std::string is, query_text(db, std::string("PRAGMA ") + p.name));
    // A build of SQLite without memory mapping has no mmap_size to read.
    const bool absent = is.empty() && std::strcmp(p.name, "mmap_size") == 0;
    if (is != p.reads_as && !absent) {
      return Error{Errc::kStorage, "open " + path + ": PRAGMA " + p.name + " reads " + is +
                                       " after it was set to " + p.value};
    }
  }
  int on = 0;
  const int rc = sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, &on);
  const std::string what = "open " + path + ": defensive mode";
  if (rc != SQLITE_OK || on != 1) return sqlite_error(db, rc, what);  // unreached: SQLite < 3.26
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
  return {};
}

/// Runs an action again while the file is busy: a copy that a backup program or a CLI reads may
/// hold it for a moment.
Result<void> retry_busy(Disk& disk, const std::string& what, sqlite3* db,
                        Result<void> (*action)(sqlite3*)) {
  constexpr int kTries = 100;
  for (int i = 0;; ++i) {
    Result<void> done = action(db);
    if (done || done.error().code != Errc::kConflict) return done;
    if (i == kTries) {
      return Error{Errc::kConflict,
                   what + ": " + done.error().what + "; another program writes to this database"};
    }
    disk.pause_ms(20);
  }
}

/// The schema version of a file; 0: it is new. kCorrupt, kVersionNewer: not for this program.
Result<int> version_of(sqlite3* db, const std::string& state_dir) {
  const std::string path = state_dir + "/control.db";
  HOLDFAST_TRY(const std::int64_t id, query_int(db, "PRAGMA application_id"));
  HOLDFAST_TRY(const std::int64_t version, query_int(db, "PRAGMA user_version"));
  HOLDFAST_TRY(const std::int64_t tables, query_int(db, "SELECT count(*) FROM sqlite_schema"));
  const bool fresh = id == 0 && version == 0 && tables == 0;
  if (!fresh && id != kApplicationId) {
    return Error{Errc::kCorrupt, "open " + path +
                                     ": it is a SQLite file, but not of this program "
                                     "(application_id " +
                                     std::to_string(id) + ")"};
  }
  if (version > schema_version()) return newer_schema(state_dir, version, schema_version());
  if (version < 0) {
    return Error{Errc::kCorrupt, "open " + path + ": its schema version is " +
                                     std::to_string(version) + ", expected 0 to " +
                                     std::to_string(schema_version()) +
                                     "; the file is damaged, restore a backup"};
  }
  return static_cast<int>(version);
}

/// Runs the migrations from `version` on, all in one transaction. `unsure`: its commit has begun.
Result<void> run_migrations(sqlite3* db, int version, bool& unsure) {
  std::string sql = "BEGIN IMMEDIATE;\n";
  for (int v = version; v < schema_version(); ++v) sql += std::string(migrations()[v]) + "\n";
  sql += "PRAGMA application_id=" + std::to_string(kApplicationId) +
         ";\nPRAGMA user_version=" + std::to_string(schema_version()) + ";";
  Result<void> done = exec(db, sql.c_str());
  crash_point(CrashPoint::kDaemonMigrateBefore);
  unsure = done.has_value();
  if (done) done = exec(db, "COMMIT");
  crash_point(CrashPoint::kDaemonMigrateAfter);
  return done;
}

/// Brings the database to this program's schema: whole, or not at all. One that had another schema
/// is copied before.
Result<void> migrate(Disk& disk, sqlite3* db, const std::string& state_dir) {
  HOLDFAST_TRY(const int version, version_of(db, state_dir));
  if (version == schema_version()) return {};
  std::string copy;
  // A disk with files of its own, as a simulation has it, keeps no copies.
  if (version > 0 && disk.is_machines()) {
    HOLDFAST_TRY(UpgradeCopy made, copy_before_upgrade(disk, db, state_dir));
    copy = std::move(made.path);
    remove_old_copies(state_dir);
  }
  bool unsure = false;
  const Result<void> done = run_migrations(db, version, unsure);
  if (!done) {
    (void)exec(db, "ROLLBACK");
    disable_checkpoint_on_close(db);
    // After a failed sync nobody knows what the file says; else it is as it was.
    if (!copy.empty() && !unsure) disk.remove(copy);
    return Error{done.error().code, "migrate " + state_dir + "/control.db to schema " +
                                        std::to_string(schema_version()) + ": " +
                                        done.error().what};
  }
  if (copy.empty()) return {};
  log::info("database upgraded", {{"from", std::to_string(version)},
                                  {"to", std::to_string(schema_version())},
                                  {"copy", copy}});
  return {};
}

/// Configures SQLite's memory. Refused without effect in a process that used SQLite before: the
/// first call tells.
void configure_memory() {
  // Counting the bytes in use takes a lock for each allocation, and nobody reads the count.
  if (sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) != SQLITE_OK) return;
  // Pages of the cache have a region of their own, touched as they are used: between other
  // allocations they tear holes into the heap, which then grows for hours.
  int header = 0;
  (void)sqlite3_config(SQLITE_CONFIG_PCACHE_HDRSZ, &header);
  const int each = kPageBytes + (header + 63) / 64 * 64;
  const auto bytes = static_cast<std::size_t>(each) * kCachePages;
  void* region = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) return;  // unreached: no process starts with so little space
  (void)sqlite3_config(SQLITE_CONFIG_PAGECACHE, region, each, kCachePages);
}

}  // namespace

int schema_version() {
  int count = 0;
  while (migrations()[count] != nullptr) ++count;
  return count;
}

Result<Db> open_database(Disk& disk, const std::string& state_dir) {
  static std::once_flag configured;
  std::call_once(configured, configure_memory);
  const std::string path = state_dir + "/control.db";
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(
      path.c_str(), &raw,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      disk.vfs());
  Db db(raw);
  if (rc != SQLITE_OK) {
    Error error = sqlite_error(raw, rc, "open " + path);
    error.what += "; is the state directory writable for this user?";
    return error;
  }
  HOLDFAST_CHECKED(retry_busy(disk, "open " + path, db.get(),
                              [](sqlite3* d) { return set_pragmas(d, "control.db"); }));
  HOLDFAST_CHECKED(define_checksums(db.get()));
  HOLDFAST_CHECKED(migrate(disk, db.get(), state_dir));
  // SQLite does not report a failed sync of the directory with the new names. Done at every start,
  // as the process that made the file may have died before this line.
  HOLDFAST_CHECKED(disk.sync_directory(state_dir));
  return db;
}

}  // namespace holdfast::store
