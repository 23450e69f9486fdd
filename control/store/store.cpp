// Life of the store: open, group commit, checkpoints, disk space.
#include "control/store/store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "control/store/backup.h"
#include "control/store/row_checksum.h"
#include "control/store/sqlite_store.h"
#include "shared/base/crash_point.h"

namespace holdfast::store {
namespace {

constexpr std::int64_t kTailBytes = 4 << 20;

int on_wal(void* pages, sqlite3*, const char*, int count) {
  *static_cast<std::int64_t*>(pages) = count;
  return SQLITE_OK;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const OpenOptions& options) {
  Disk& disk = options.disk != nullptr ? *options.disk : real_disk();
  std::optional<StateLock> lock;
  if (options.disk == nullptr) {
    HOLDFAST_TRY(StateLock held,
                 StateLock::acquire(options.state_dir, options.role, options.lock_wait_ms));
    lock.emplace(std::move(held));
  }
  crash_point(CrashPoint::kDaemonStartLocked);
  // The previous process may have died of a failed sync: the page cache may show a log that never
  // reaches the disk, and no later sync would report it. A checkpoint from such a log, or commits
  // after it, would be lost or torn by the next power failure. Writing the log makes it dirty
  // again.
  HOLDFAST_CHECKED(disk.rewrite(options.state_dir + "/control.db-wal"));
  if (lock) remove_unfinished(options.state_dir);
  Result<Db> opened = open_database(disk, options.state_dir);
  // The daemon must serve reads and end what runs on a full disk too: the reserve is for this.
  const bool full = !opened && opened.error().code == Errc::kDiskFull;
  if (full && disk.remove(options.state_dir + "/control.reserve")) {
    opened = open_database(disk, options.state_dir);
  }
  HOLDFAST_TRY(Db db, std::move(opened));
  crash_point(CrashPoint::kDaemonStartOpened);
  if (options.max_pages > 0) {
    HOLDFAST_CHECKED(
        exec(db.get(), ("PRAGMA max_page_count=" + std::to_string(options.max_pages)).c_str()));
  }
  auto store = std::make_unique<SqliteStore>(std::move(lock), disk, std::move(db), options);
  HOLDFAST_CHECKED(store->prepare());
  HOLDFAST_CHECKED(store->load_tail());
  HOLDFAST_CHECKED(store->check_log());
  store->restore_reserve();
  return std::unique_ptr<Store>(std::move(store));
}

SqliteStore::SqliteStore(std::optional<StateLock> lock, Disk& disk, Db db, OpenOptions options)
    : lock_(std::move(lock)), disk_(disk), db_(std::move(db)), options_(std::move(options)) {
  sqlite3_wal_hook(db_.get(), &on_wal, &wal_pages_);
}

SqliteStore::~SqliteStore() = default;

Result<void> SqliteStore::set_synchronous(core::Durability durability) {
  if (synchronous_ == durability) return {};
  const char* sql = durability == core::Durability::kFull ? "PRAGMA synchronous=FULL"
                                                          : "PRAGMA synchronous=NORMAL";
  HOLDFAST_CHECKED(exec(db_.get(), sql));
  synchronous_ = durability;
  return {};
}

/// Begins one transaction for the reads of single rows while a group is taken in: each read of its
/// own would take and release a file lock.
Result<void> SqliteStore::begin_reads() {
  if (reading_) return {};
  HOLDFAST_CHECKED(begin_reads_.use().run());
  reading_ = true;
  return {};
}

Result<void> SqliteStore::end_reads() {
  if (!reading_) return {};
  reading_ = false;
  return commit_.use().run();
}

/// Stops all writing, also at the close: the file's content is unknown.
void SqliteStore::stop_writing() {
  failed_ = true;
  disable_checkpoint_on_close(db_.get());
}

Result<std::uint64_t> SqliteStore::raise_epoch(std::int64_t wall_ms) {
  Result<std::uint64_t> epoch = insert_epoch(wall_ms);
  if (!epoch && epoch.error().code == Errc::kDiskFull && release_reserve())
    epoch = insert_epoch(wall_ms);
  if (!epoch) stop_writing();
  return epoch;
}

Result<std::uint64_t> SqliteStore::insert_epoch(std::int64_t wall_ms) {
  HOLDFAST_CHECKED(end_reads());
  HOLDFAST_CHECKED(set_synchronous(core::Durability::kFull));
  Result<std::uint64_t> epoch = write_epoch(wall_ms);
  if (!epoch) {
    if (sqlite3_get_autocommit(db_.get()) == 0) (void)exec(db_.get(), "ROLLBACK");
    return epoch;
  }
  epoch_ = static_cast<std::int64_t>(*epoch);
  found_loss_.reset();
  mark_.write({++synced_, epoch_});
  return epoch;
}

/// Writes the next epoch in a transaction of its own. A lost log may have had later epochs; the
/// mark has the last one.
Result<std::uint64_t> SqliteStore::write_epoch(std::int64_t wall_ms) {
  HOLDFAST_TRY(const std::int64_t last,
               query_int(db_.get(), "SELECT coalesce(max(epoch), 0) FROM epochs"));
  const std::int64_t next = std::max(last, epoch_) + 1;
  HOLDFAST_TRY(Statement insert,
               Statement::prepare(
                   db_.get(), checked_insert("epochs", "epoch, started_ms, pid, program").c_str()));
  HOLDFAST_CHECKED(begin_.use().run());
  HOLDFAST_CHECKED(
      insert.use().bind(next).bind(wall_ms).bind(std::int64_t{getpid()}).bind(options_.role).run());
  if (found_loss_) {
    const std::string value = std::to_string(found_loss_->expected) + " " +
                              std::to_string(found_loss_->found) + " " + std::to_string(wall_ms);
    HOLDFAST_CHECKED(put_flag_.use().bind(kLogLostFlag).bind(value).run());
  }
  HOLDFAST_CHECKED(count_group());
  HOLDFAST_CHECKED(commit_.use().run());
  return static_cast<std::uint64_t>(next);
}

Result<void> SqliteStore::check_log() {
  HOLDFAST_TRY(Statement select,
               Statement::prepare(db_.get(), ("SELECT database, synced, " + sound_row("log_mark") +
                                              ", checksum FROM log_mark")
                                                 .c_str()));
  auto use = select.use();
  HOLDFAST_TRY(const bool there, use.step());
  if (!there || use.integer(2) == 0) {
    return Error{Errc::kCorrupt, "log_mark: its row is damaged; see db check, restore a backup"};
  }
  synced_ = use.integer(1);
  if (!use.is_null(3)) {
    const ColumnSeeds seeds(static_cast<std::uint64_t>(name_hash("synced")));
    mark_others_ = static_cast<std::uint64_t>(use.integer(3)) ^ seeds.part(synced_);
  }
  mark_ = LogMark::open(disk_, options_.state_dir, use.text(0));
  if (const auto& another = mark_.of_another()) {
    epoch_ = another->epoch;
    found_loss_ = LogLoss{another->synced, 0, 0};
  }
  // A new database is all in its log. From here on the file itself holds its identity.
  if (!mark_.claim()) return checkpoint(SQLITE_CHECKPOINT_PASSIVE);
  epoch_ = mark_.claim()->epoch;
  if (mark_.claim()->synced <= synced_) return {};
  found_loss_ = LogLoss{mark_.claim()->synced, synced_, 0};
  synced_ = mark_.claim()->synced;  // the count goes on where it was
  return {};
}

Result<std::optional<LogLoss>> SqliteStore::log_loss() const {
  if (found_loss_) return found_loss_;
  HOLDFAST_TRY(const std::string text,
               query_text(db_.get(), "SELECT value FROM flags WHERE name='" +
                                         std::string(kLogLostFlag) + "'"));
  if (text.empty()) return std::optional<LogLoss>();
  LogLoss loss;
  char* at = nullptr;
  loss.expected = std::strtoll(text.c_str(), &at, 10);
  loss.found = std::strtoll(at, &at, 10);
  loss.at_ms = std::strtoll(at, &at, 10);
  return std::optional(loss);
}

/// Counts the group in its own transaction, which is going to be synced.
Result<void> SqliteStore::count_group() {
  return count_synced_.use(mark_others_).bind(synced_ + 1).run();
}

Result<void> SqliteStore::apply(std::span<const core::RowChange> rows,
                                core::Durability durability) {
  if (failed_)
    return Error{Errc::kStorage, "commit: an earlier I/O error left the outcome unknown"};
  if (rows.empty()) return {};
  Result<void> done = end_reads();
  if (done) done = set_synchronous(durability);
  const bool synced = durability == core::Durability::kFull;
  if (done) done = begin_write_commit(rows, synced);
  if (done) {
    tail_.commit();
    if (synced) mark_.write({++synced_, epoch_});
    return {};
  }
  tail_.rollback();
  sums_.clear();
  // The error may have rolled back already; an open transaction is rolled back here.
  if (sqlite3_get_autocommit(db_.get()) == 0) (void)exec(db_.get(), "ROLLBACK");
  if (done.error().code == Errc::kDiskFull) return done;
  stop_writing();
  const Errc code = done.error().code == Errc::kCorrupt ? Errc::kCorrupt : Errc::kStorage;
  return Error{code, "commit: " + done.error().what};
}

Result<void> SqliteStore::begin_write_commit(std::span<const core::RowChange> rows, bool synced) {
  HOLDFAST_CHECKED(begin_.use().run());
  if (tail_.rows() >= options_.tail_rows || tail_.bytes() >= kTailBytes) {
    HOLDFAST_CHECKED(settle_tail());
  }
  for (const core::RowChange& row : rows) {
    HOLDFAST_CHECKED(std::visit([this](const auto& change) { return write(change); }, row));
  }
  if (synced) HOLDFAST_CHECKED(count_group());
  crash_point(CrashPoint::kDaemonCommitInside);
  return commit_.use().run();
}

Result<void> SqliteStore::checkpoint(int mode) {
  int log = 0;
  int done = 0;
  crash_point(CrashPoint::kDaemonCheckpointBefore);
  const int rc = sqlite3_wal_checkpoint_v2(db_.get(), nullptr, mode, &log, &done);
  if (rc == SQLITE_BUSY) return {};    // a reader; the next checkpoint will do
  if (rc == SQLITE_LOCKED) return {};  // unreached: no caller leaves one of our statements open
  if (rc != SQLITE_OK) {
    Error error = sqlite_error(db_.get(), rc, "checkpoint");
    if (error.code == Errc::kDiskFull) return {};  // meanwhile the log holds everything
    stop_writing();
    return error;
  }
  // When all of the log is in the file, the next commit starts the log from its beginning.
  if (log == done) wal_pages_ = 0;
  mark_.sync();
  crash_point(CrashPoint::kDaemonCheckpointAfter);
  return {};
}

Result<void> SqliteStore::checkpoint_if_due(bool idle) {
  if (failed_) return {};
  HOLDFAST_CHECKED(end_reads());
  if (wal_pages_ >= options_.truncate_pages) return checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
  if (wal_pages_ >= options_.busy_checkpoint_pages ||
      (idle && wal_pages_ >= options_.idle_checkpoint_pages)) {
    return checkpoint(SQLITE_CHECKPOINT_PASSIVE);
  }
  if (idle) mark_.sync();
  return {};
}

Result<void> SqliteStore::checkpoint_all() {
  if (failed_) return {};
  HOLDFAST_CHECKED(end_reads());
  return checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
}

Result<std::unique_ptr<Backup>> SqliteStore::begin_backup(const std::string& path) {
  return Backup::begin(db_.get(), options_.state_dir, path);
}

Result<Store::Stats> SqliteStore::stats() {
  const auto number = [this](const std::string& sql) { return query_int(db_.get(), sql); };
  Stats stats;
  HOLDFAST_TRY(stats.page_bytes, number("PRAGMA page_size"));
  HOLDFAST_TRY(stats.pages, number("PRAGMA page_count"));
  HOLDFAST_TRY(stats.free_pages, number("PRAGMA freelist_count"));
  HOLDFAST_TRY(stats.schema, number("PRAGMA user_version"));
  stats.wal_pages = wal_pages_;
  stats.disk_free = disk_free();
  for (const char* table :
       {"requests", "choices", "payloads", "settled", "tail", "attempts", "models", "loads",
        "transitions", "config_versions", "epochs", "aliases", "alias_history", "canaries",
        "canary_windows", "objects", "object_parts"}) {
    HOLDFAST_TRY(const std::int64_t rows, number(std::string("SELECT count(*) FROM ") + table));
    stats.rows.emplace_back(table, rows);
  }
  return stats;
}

std::int64_t SqliteStore::disk_free() const {
  return std::min(disk_.free_bytes(options_.state_dir),
                  disk_.growth_allowed(options_.state_dir + "/control.db"));
}

bool SqliteStore::release_reserve() {
  return disk_.remove(reserve_path());
}

void SqliteStore::set_reserve(std::int64_t bytes) {
  options_.reserve_bytes = bytes;
  restore_reserve();
}

void SqliteStore::restore_reserve() {
  if (options_.reserve_bytes <= 0 || disk_free() < options_.reserve_bytes * 4) return;
  // Without the reserve the daemon works, but has less space when the disk gets full.
  disk_.allocate(reserve_path(), options_.reserve_bytes);
}

}  // namespace holdfast::store
