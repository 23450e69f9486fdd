// The way back: check a copy, put it in place. Every step leaves a whole database under the name.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "control/store/backup.h"
#include "control/store/files.h"
#include "control/store/lock.h"
#include "control/store/open.h"
#include "control/store/store.h"

namespace holdfast::store {
namespace {

namespace fs = std::filesystem;

Error damaged(const std::string& path, const std::string& what) {
  return Error{Errc::kCorrupt, "check " + path + ": " + what};
}

/// A file that nobody writes to. WAL or not: an old log beside it is taken into account.
Result<Db> open_still(const std::string& path, int flags) {
  if (access(path.c_str(), R_OK) != 0) {
    return Error{Errc::kIo, "open " + path + ": " + std::strerror(errno)};
  }
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(path.c_str(), &raw,
                                 flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Db db(raw);
  if (rc != SQLITE_OK) return sqlite_error(raw, rc, "open " + path);
  return db;
}

Result<void> check_identity(sqlite3* db, const std::string& path, CheckReport& report) {
  HF_TRY(const std::int64_t id, query_int(db, "PRAGMA application_id"));
  if (id != kApplicationId) return damaged(path, "it is not a database of this program");
  HF_TRY(report.schema, query_int(db, "PRAGMA user_version"));
  if (report.schema > schema_version()) {
    return Error{Errc::kVersionNewer, "check " + path + ": made by a newer program (schema " +
                                          std::to_string(report.schema) + ", this one knows " +
                                          std::to_string(schema_version()) + ")"};
  }
  HF_TRY(const std::string whole, query_text(db, "PRAGMA integrity_check(1)"));
  if (whole != "ok") return damaged(path, whole);
  HF_TRY(const std::string dangling, query_text(db, "PRAGMA foreign_key_check"));
  if (!dangling.empty()) return damaged(path, "rows of " + dangling + " refer to rows not there");
  return {};
}

Result<void> check_chunks(sqlite3* db, const std::string& path, CheckReport& report) {
  HF_TRY(Statement select, Statement::prepare(db,
                                              "SELECT seq, choice, start, ids, extra, crc FROM"
                                              " chunks"));
  auto use = select.use();
  for (;;) {
    HF_TRY(const bool more, use.step());
    if (!more) return {};
    ++report.chunks;
    const std::uint32_t sum = crc32c(use.bytes(4), crc32c(use.bytes(3)));
    if (sum == static_cast<std::uint32_t>(use.integer(5))) continue;
    return damaged(path, "tokens of request row " + use.text(0) + ", choice " + use.text(1) +
                             ", from index " + use.text(2) + ": the checksum differs");
  }
}

Result<void> check_payloads(sqlite3* db, const std::string& path, CheckReport& report) {
  HF_TRY(Statement select, Statement::prepare(db, "SELECT seq, prompts, crc FROM payloads"));
  auto use = select.use();
  for (;;) {
    HF_TRY(const bool more, use.step());
    if (!more) return {};
    ++report.payloads;
    if (crc32c(use.bytes(1)) == static_cast<std::uint32_t>(use.integer(2))) continue;
    return damaged(path, "prompts of request row " + use.text(0) + ": the checksum differs");
  }
}

Result<void> copy_synced(const std::string& from, const std::string& to) {
  std::error_code failed;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, failed);
  if (failed) return Error{Errc::kIo, "copy " + from + " to " + to + ": " + failed.message()};
  chmod_private(to);
  return sync_file(to);
}

/// Hard links of what is there now. Empty if there is nothing.
Result<std::string> keep_old(const std::string& state_dir, std::int64_t wall_ms) {
  const std::string db = state_dir + "/control.db";
  if (access(db.c_str(), F_OK) != 0) return std::string();
  const std::string kept = state_dir + "/before-restore-" + std::to_string(wall_ms);
  if (mkdir(kept.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error{Errc::kIo, "make " + kept + ": " + std::strerror(errno)};
  }
  for (const char* name : {"/control.db", "/control.db-wal"}) {
    const std::string from = state_dir + name;
    if (access(from.c_str(), F_OK) != 0) continue;
    // The log is copied: the database below is going to be written from it.
    HF_CHECKED(copy_synced(from, kept + name));
  }
  HF_CHECKED(sync_directory(kept));
  HF_CHECKED(sync_directory(state_dir));
  return kept;
}

/// Empties the old log, so that none of it can be applied to the new file. Returns the last epoch.
/// An old database that is damaged stops nobody; one whose log is in use, or finds no room in the
/// file, does: without its log it would not be whole any more, should the rest fail.
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
      keep_log_on_close(old);
      return sqlite_error(old, rc, "move the log of " + path + " into it (who else uses it?)");
    }
  }
  for (const char* name : {"-wal", "-shm"}) unlink((path + name).c_str());
  return epoch;
}

/// The copy becomes a database that can be opened in place: its epoch beyond the old one's.
Result<std::uint64_t> raise_beyond(const std::string& path, std::uint64_t old_epoch,
                                   std::int64_t wall_ms) {
  HF_TRY(const Db db, open_still(path, SQLITE_OPEN_READWRITE));
  HF_CHECKED(exec(db.get(), "PRAGMA journal_mode=DELETE"));
  HF_TRY(const std::int64_t own, query_int(db.get(), "SELECT coalesce(max(epoch), 0) FROM epochs"));
  const auto next = static_cast<std::int64_t>(
      std::max<std::uint64_t>(old_epoch, static_cast<std::uint64_t>(own)) + 1);
  HF_TRY(Statement insert,
         Statement::prepare(db.get(),
                            "INSERT INTO epochs(epoch, started_ms, pid, program) VALUES"
                            " (?, ?, ?, 'restore')"));
  HF_CHECKED(insert.use().bind(next).bind(wall_ms).bind(std::int64_t{getpid()}).run());
  return static_cast<std::uint64_t>(next);
}

}  // namespace

Result<CheckReport> check_file(const std::string& path) {
  HF_TRY(const Db db, open_still(path, SQLITE_OPEN_READONLY));
  CheckReport report;
  HF_CHECKED(check_identity(db.get(), path, report));
  HF_TRY(report.requests, query_int(db.get(), "SELECT count(*) FROM requests"));
  HF_CHECKED(check_chunks(db.get(), path, report));
  HF_CHECKED(check_payloads(db.get(), path, report));
  return report;
}

namespace {

Result<RestoreReport> put_in_place(const std::string& state_dir, const std::string& file,
                                   const std::string& fresh, std::int64_t wall_ms) {
  const std::string target = state_dir + "/control.db";
  HF_CHECKED(copy_synced(file, fresh));
  HF_TRY([[maybe_unused]] const CheckReport whole, check_file(fresh));
  RestoreReport report;
  HF_TRY(report.kept, keep_old(state_dir, wall_ms));
  std::uint64_t old_epoch = 0;
  if (!report.kept.empty()) {
    HF_TRY(old_epoch, settle_old(state_dir));
  }
  HF_TRY(report.epoch, raise_beyond(fresh, old_epoch, wall_ms));
  HF_CHECKED(sync_file(fresh));
  HF_CHECKED(sync_directory(state_dir));
  if (rename(fresh.c_str(), target.c_str()) != 0) {
    return Error{Errc::kIo, "rename " + fresh + ": " + std::strerror(errno)};
  }
  HF_CHECKED(sync_directory(state_dir));
  return report;
}

}  // namespace

Result<RestoreReport> restore_file(const std::string& state_dir, const std::string& file,
                                   std::int64_t wall_ms) {
  HF_TRY(const StateLock lock, StateLock::acquire(state_dir, "cli"));
  const std::string fresh = state_dir + "/control.db.restoring";
  // A journal that an earlier try left would be played into the new copy.
  const auto remove_fresh = [&] {
    for (const char* name : {"", "-journal", "-wal", "-shm"}) unlink((fresh + name).c_str());
  };
  remove_fresh();
  Result<RestoreReport> done = put_in_place(state_dir, file, fresh, wall_ms);
  if (!done) remove_fresh();  // a whole copy that nobody asks for, on a disk that may be full
  return done;
}

}  // namespace holdfast::store
