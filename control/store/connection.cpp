#include "control/store/connection.h"

#include <utility>

#include "shared/base/crash_point.h"

namespace holdfast::store {
namespace {

int on_wal(void* pages, sqlite3*, const char*, int count) {
  *static_cast<std::int64_t*>(pages) = count;
  return SQLITE_OK;
}

}  // namespace

Connection::Connection(Db db, const OpenOptions& options)
    : db_(std::move(db)),
      idle_checkpoint_pages_(options.idle_checkpoint_pages),
      busy_checkpoint_pages_(options.busy_checkpoint_pages),
      truncate_pages_(options.truncate_pages) {
  sqlite3_wal_hook(db_.get(), &on_wal, &wal_pages_);
}

Result<void> Connection::prepare() {
  HOLDFAST_TRY(begin_, Statement::prepare(db_.get(), "BEGIN IMMEDIATE"));
  HOLDFAST_TRY(commit_, Statement::prepare(db_.get(), "COMMIT"));
  HOLDFAST_TRY(begin_reads_, Statement::prepare(db_.get(), "BEGIN DEFERRED"));
  return {};
}

Result<void> Connection::set_synchronous(core::Durability durability) {
  if (synchronous_ == durability) return {};
  const char* sql = durability == core::Durability::kFull ? "PRAGMA synchronous=FULL"
                                                          : "PRAGMA synchronous=NORMAL";
  HOLDFAST_CHECKED(exec(db_.get(), sql));
  synchronous_ = durability;
  return {};
}

void Connection::roll_back() {
  if (sqlite3_get_autocommit(db_.get()) == 0) (void)exec(db_.get(), "ROLLBACK");
}

Result<void> Connection::begin_reads() {
  if (reading_) return {};
  HOLDFAST_CHECKED(begin_reads_.use().run());
  reading_ = true;
  return {};
}

Result<void> Connection::end_reads() {
  if (!reading_) return {};
  reading_ = false;
  return commit_.use().run();
}

std::optional<int> Connection::due_checkpoint(bool idle) const {
  if (wal_pages_ >= truncate_pages_) return SQLITE_CHECKPOINT_TRUNCATE;
  if (wal_pages_ >= busy_checkpoint_pages_ || (idle && wal_pages_ >= idle_checkpoint_pages_)) {
    return SQLITE_CHECKPOINT_PASSIVE;
  }
  return std::nullopt;
}

Result<bool> Connection::checkpoint(int mode) {
  int log = 0;
  int done = 0;
  crash_point(CrashPoint::kDaemonCheckpointBefore);
  const int rc = sqlite3_wal_checkpoint_v2(db_.get(), nullptr, mode, &log, &done);
  if (rc == SQLITE_BUSY) return false;    // a reader; the next checkpoint will do
  if (rc == SQLITE_LOCKED) return false;  // a statement of this connection is open
  if (rc != SQLITE_OK) {
    Error error = sqlite_error(db_.get(), rc, "checkpoint");
    if (error.code == Errc::kDiskFull) return false;  // meanwhile the log holds everything
    stop_writing();
    return error;
  }
  // When all of the log is in the file, the next commit starts the log from its beginning.
  if (log == done) wal_pages_ = 0;
  return true;
}

void Connection::stop_writing() {
  failed_ = true;
  disable_checkpoint_on_close(db_.get());
}

}  // namespace holdfast::store
