// Restores a database: checks a copy and puts it in place. Every step leaves a whole database.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "control/store/backup.h"
#include "control/store/check.h"
#include "control/store/files.h"
#include "control/store/lock.h"
#include "control/store/meta_repository.h"
#include "control/store/open.h"
#include "control/store/store.h"
#include "control/store/write_statements.h"

namespace holdfast::store {
namespace {

namespace fs = std::filesystem;

constexpr Columns kRenamed{"database"};
constexpr Columns kMarkKey{"id"};

Result<void> copy_synced(const std::string& from, const std::string& to) {
  std::error_code failed;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, failed);
  if (failed) return Error{Errc::kIo, "copy " + from + " to " + to + ": " + failed.message()};
  chmod_private(to);
  return sync_file(to);
}

/// Copies the files that are there into a new folder, which it returns. Empty if there are none.
Result<std::string> save_previous(const std::string& state_dir, std::int64_t wall_ms) {
  const std::string db = state_dir + "/control.db";
  if (access(db.c_str(), F_OK) != 0) return std::string();
  const std::string previous_dir = state_dir + "/before-restore-" + std::to_string(wall_ms);
  if (mkdir(previous_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error{Errc::kIo, "make " + previous_dir + ": " + std::strerror(errno)};
  }
  for (const char* name : {"/control.db", "/control.db-wal"}) {
    const std::string from = state_dir + name;
    if (access(from.c_str(), F_OK) != 0) continue;
    // The log is copied too, as settle_old() writes it into the database.
    HOLDFAST_CHECKED(copy_synced(from, previous_dir + name));
  }
  HOLDFAST_CHECKED(sync_directory(previous_dir));
  HOLDFAST_CHECKED(sync_directory(state_dir));
  return previous_dir;
}

/// Empties the old log, so that none of it can be applied to the new file. Returns the last epoch.
/// A damaged old database is no obstacle. One whose log is in use, or does not fit into the file,
/// is: without its log it would not be whole any more if the rest failed.
Result<std::uint64_t> settle_old(const std::string& state_dir) {
  const std::string path = state_dir + "/control.db";
  std::uint64_t epoch = 0;
  if (auto db = open_still(path, SQLITE_OPEN_READWRITE)) {
    sqlite3* old = db->get();
    if (auto last = query_int(old, "SELECT coalesce(max(epoch), 0) FROM epochs")) {
      epoch = static_cast<std::uint64_t>(*last);
    }
    const int mode = SQLITE_CHECKPOINT_TRUNCATE;
    const int rc = sqlite3_wal_checkpoint_v2(old, nullptr, mode, nullptr, nullptr);
    const int kind = rc & 0xff;
    if (kind == SQLITE_BUSY || kind == SQLITE_FULL || kind == SQLITE_IOERR) {
      disable_checkpoint_on_close(old);
      return sqlite_error(old, rc, "move the log of " + path + " into it (who else uses it?)");
    }
  }
  for (const char* name : {"-wal", "-shm"}) unlink((path + name).c_str());
  return epoch;
}

/// Inserts the epoch, with a checksum where the schema has them, and renames the database: a mark
/// of the previous database does not hold for the restored one.
Result<void> begin_anew(sqlite3* db, std::int64_t epoch, std::int64_t wall_ms) {
  HOLDFAST_TRY(const std::int64_t marked,
               query_int(db, "SELECT count(*) FROM sqlite_schema WHERE name='log_mark'"));
  Insert<kEpochColumns> insert;
  HOLDFAST_CHECKED(marked != 0 ? insert.prepare(db, "epochs") : insert.prepare_plain(db, "epochs"));
  auto values = insert.values();
  values.set("epoch", epoch).set("started_ms", wall_ms).set("pid", std::int64_t{getpid()});
  HOLDFAST_CHECKED(values.set("program", "restore").run());
  if (marked == 0) return {};
  HOLDFAST_TRY(const std::string name, query_text(db, "SELECT lower(hex(randomblob(16)))"));
  Update<kRenamed, kMarkKey> update;
  HOLDFAST_CHECKED(update.prepare(db, "log_mark"));
  return update.values().set("database", name).key("id", 1).run();
}

/// Makes the copy a database that can be opened in place; its epoch goes beyond the old one's.
Result<std::uint64_t> raise_beyond(const std::string& path, std::uint64_t old_epoch,
                                   std::int64_t wall_ms) {
  HOLDFAST_TRY(const Db db, open_still(path, SQLITE_OPEN_READWRITE));
  HOLDFAST_CHECKED(exec(db.get(), "PRAGMA journal_mode=DELETE"));
  HOLDFAST_TRY(const std::int64_t current_epoch,
               query_int(db.get(), "SELECT coalesce(max(epoch), 0) FROM epochs"));
  const auto next = static_cast<std::int64_t>(
      std::max<std::uint64_t>(old_epoch, static_cast<std::uint64_t>(current_epoch)) + 1);
  HOLDFAST_CHECKED(exec(db.get(), "BEGIN IMMEDIATE"));
  HOLDFAST_CHECKED(begin_anew(db.get(), next, wall_ms));
  HOLDFAST_CHECKED(exec(db.get(), "COMMIT"));
  return static_cast<std::uint64_t>(next);
}

Result<RestoreReport> install_copy(const std::string& state_dir, const std::string& file,
                                   const std::string& fresh, std::int64_t wall_ms) {
  const std::string target = state_dir + "/control.db";
  HOLDFAST_CHECKED(copy_synced(file, fresh));
  HOLDFAST_TRY([[maybe_unused]] const CheckReport whole, check_file(fresh));
  RestoreReport report;
  HOLDFAST_TRY(report.previous_dir, save_previous(state_dir, wall_ms));
  std::uint64_t old_epoch = 0;
  if (!report.previous_dir.empty()) {
    HOLDFAST_TRY(old_epoch, settle_old(state_dir));
  }
  HOLDFAST_TRY(report.epoch, raise_beyond(fresh, old_epoch, wall_ms));
  HOLDFAST_CHECKED(sync_file(fresh));
  HOLDFAST_CHECKED(sync_directory(state_dir));
  if (rename(fresh.c_str(), target.c_str()) != 0) {
    return Error{Errc::kIo, "rename " + fresh + ": " + std::strerror(errno)};
  }
  HOLDFAST_CHECKED(sync_directory(state_dir));
  return report;
}

}  // namespace

Result<RestoreReport> restore_file(const std::string& state_dir, const std::string& file,
                                   std::int64_t wall_ms) {
  HOLDFAST_TRY(const StateLock lock, StateLock::acquire(state_dir, "cli"));
  const std::string fresh = state_dir + "/control.db.restoring";
  // A journal that an earlier try left would be played into the new copy.
  const auto remove_fresh = [&] {
    for (const char* name : {"", "-journal", "-wal", "-shm"}) unlink((fresh + name).c_str());
  };
  remove_fresh();
  Result<RestoreReport> done = install_copy(state_dir, file, fresh, wall_ms);
  if (!done) remove_fresh();  // a whole copy that is of no use, on a disk that may be full
  return done;
}

}  // namespace holdfast::store
