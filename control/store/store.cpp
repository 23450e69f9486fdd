// Life of the store: open, start, group commit, checkpoints, disk space.
#include "control/store/store.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "control/store/backup.h"
#include "control/store/sqlite_store.h"
#include "shared/base/crash_point.h"

namespace holdfast::store {
namespace {

/// Has a row change written by the repository that knows its kind.
template <class Change, class First, class... Rest>
Result<void> write_by(const Change& change, First& first, Rest&... rest) {
  if constexpr (requires { first.write(change); }) {
    return first.write(change);
  } else {
    return write_by(change, rest...);
  }
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const OpenOptions& options) {
  Disk& disk = options.disk != nullptr ? *options.disk : real_disk();
  std::optional<StateLock> lock;
  if (disk.is_machines()) {
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
  HOLDFAST_CHECKED(store->start());
  store->restore_reserve();
  return std::unique_ptr<Store>(std::move(store));
}

SqliteStore::SqliteStore(std::optional<StateLock> lock, Disk& disk, Db db, OpenOptions options)
    : lock_(std::move(lock)),
      disk_(disk),
      options_(std::move(options)),
      connection_(std::move(db), options_) {}

Result<void> SqliteStore::start() {
  HOLDFAST_CHECKED(prepare());
  HOLDFAST_CHECKED(tokens_.load_tail());
  return groups_.compare(disk_, options_.state_dir);
}

Result<void> SqliteStore::prepare() {
  HOLDFAST_CHECKED(connection_.prepare());
  HOLDFAST_CHECKED(groups_.prepare());
  HOLDFAST_CHECKED(meta_.prepare());
  HOLDFAST_CHECKED(tokens_.prepare());
  HOLDFAST_CHECKED(requests_.prepare());
  HOLDFAST_CHECKED(models_.prepare());
  return objects_.prepare();
}

Result<core::Boot> SqliteStore::load(std::int64_t queued_max, std::int64_t keys_since_ms) {
  core::Boot boot;
  HOLDFAST_TRY(boot.last_seq, requests_.begin_load());
  HOLDFAST_CHECKED(meta_.check_flags());
  HOLDFAST_TRY(const std::int64_t queued, requests_.count_queued());
  HOLDFAST_TRY(boot.config_versions, meta_.config_versions());
  HOLDFAST_CHECKED(meta_.load_flags(boot));
  boot.boot_id = disk_.boot_id();
  HOLDFAST_TRY(boot.models, models_.load_models());
  HOLDFAST_TRY(boot.loads, models_.load_loads());
  HOLDFAST_TRY(boot.aliases, aliases_.load_aliases());
  HOLDFAST_TRY(boot.canaries, aliases_.load_canaries());
  HOLDFAST_TRY(boot.keys, requests_.load_keys(keys_since_ms));
  HOLDFAST_TRY(boot.requests, requests_.load_started());
  HOLDFAST_TRY(core::BootQueuePage first, requests_.load_queue_page(queued_max));
  boot.unread = queued - static_cast<std::int64_t>(first.requests.size());
  boot.requests.insert(boot.requests.end(), std::make_move_iterator(first.requests.begin()),
                       std::make_move_iterator(first.requests.end()));
  std::sort(boot.requests.begin(), boot.requests.end(),
            [](const auto& a, const auto& b) { return a.row.seq < b.row.seq; });
  return boot;
}

Result<void> SqliteStore::make_secret(const std::string& name, std::string_view value) {
  HOLDFAST_TRY(const std::string existing, secret(name));
  if (!existing.empty()) return {};
  HOLDFAST_CHECKED(connection_.end_reads());
  HOLDFAST_CHECKED(connection_.set_synchronous(core::Durability::kFull));
  Result<void> done = meta_.insert_secret(name, value);
  if (!done) connection_.stop_writing();
  return done;
}

Result<std::uint64_t> SqliteStore::raise_epoch(std::int64_t wall_ms) {
  Result<std::uint64_t> epoch = insert_epoch(wall_ms);
  if (!epoch && epoch.error().code == Errc::kDiskFull && release_reserve())
    epoch = insert_epoch(wall_ms);
  if (!epoch) connection_.stop_writing();
  return epoch;
}

Result<std::uint64_t> SqliteStore::insert_epoch(std::int64_t wall_ms) {
  HOLDFAST_CHECKED(connection_.end_reads());
  HOLDFAST_CHECKED(connection_.set_synchronous(core::Durability::kFull));
  Result<std::uint64_t> epoch = write_epoch(wall_ms);
  if (!epoch) {
    connection_.roll_back();
    return epoch;
  }
  groups_.note_epoch(static_cast<std::int64_t>(*epoch));
  return epoch;
}

/// Writes the next epoch in a transaction of its own. A lost log may have had later epochs; the
/// mark has the last one.
Result<std::uint64_t> SqliteStore::write_epoch(std::int64_t wall_ms) {
  HOLDFAST_TRY(const std::int64_t last, meta_.last_epoch());
  const std::int64_t next = std::max(std::max(last, groups_.epoch()) + 1, options_.epoch_min);
  HOLDFAST_CHECKED(connection_.begin());
  HOLDFAST_CHECKED(meta_.insert_epoch(next, wall_ms, options_.role));
  if (const auto& loss = groups_.found_loss()) {
    const std::string value = std::to_string(loss->expected) + " " + std::to_string(loss->found) +
                              " " + std::to_string(wall_ms);
    HOLDFAST_CHECKED(meta_.write(core::PutFlag{kLogLostFlag, value}));
  }
  HOLDFAST_CHECKED(groups_.count());
  HOLDFAST_CHECKED(connection_.commit());
  return static_cast<std::uint64_t>(next);
}

Result<std::optional<LogLoss>> SqliteStore::log_loss() const {
  if (groups_.found_loss()) return groups_.found_loss();
  HOLDFAST_TRY(const std::string text, meta_.flag(kLogLostFlag));
  if (text.empty()) return std::optional<LogLoss>();
  LogLoss loss;
  char* at = nullptr;
  loss.expected = std::strtoll(text.c_str(), &at, 10);
  loss.found = std::strtoll(at, &at, 10);
  loss.at_ms = std::strtoll(at, &at, 10);
  return std::optional(loss);
}

Result<void> SqliteStore::apply(std::span<const core::RowChange> rows,
                                core::Durability durability) {
  if (connection_.has_failed())
    return Error{Errc::kStorage, "commit: an earlier I/O error left the outcome unknown"};
  if (rows.empty()) return {};
  Result<void> done = connection_.end_reads();
  if (done) done = connection_.set_synchronous(durability);
  const bool synced = durability == core::Durability::kFull;
  if (done) done = begin_write_commit(rows, synced);
  if (done) {
    tokens_.commit();
    if (synced) groups_.note_synced();
    return {};
  }
  tokens_.rollback();
  requests_.rollback();
  connection_.roll_back();
  if (done.error().code == Errc::kDiskFull) return done;
  connection_.stop_writing();
  const Errc code = done.error().code == Errc::kCorrupt ? Errc::kCorrupt : Errc::kStorage;
  return Error{code, "commit: " + done.error().what};
}

template <class Change>
Result<void> SqliteStore::write(const Change& change) {
  return write_by(change, requests_, tokens_, models_, meta_, aliases_, objects_);
}

Result<void> SqliteStore::write(const core::AliasChange& change) {
  return std::visit([this](const auto& one) { return write(one); }, change);
}

Result<void> SqliteStore::begin_write_commit(std::span<const core::RowChange> rows, bool synced) {
  HOLDFAST_CHECKED(connection_.begin());
  HOLDFAST_CHECKED(tokens_.settle_if_long());
  for (const core::RowChange& row : rows) {
    HOLDFAST_CHECKED(std::visit([this](const auto& change) { return write(change); }, row));
  }
  if (synced) HOLDFAST_CHECKED(groups_.count());
  crash_point(CrashPoint::kDaemonCommitInside);
  return connection_.commit();
}

Result<void> SqliteStore::checkpoint_if_due(bool idle) {
  if (connection_.has_failed()) return {};
  HOLDFAST_CHECKED(connection_.end_reads());
  if (const auto mode = connection_.due_checkpoint(idle)) return groups_.checkpoint(*mode);
  if (idle) groups_.sync();
  return {};
}

Result<void> SqliteStore::checkpoint_all() {
  if (connection_.has_failed()) return {};
  HOLDFAST_CHECKED(connection_.end_reads());
  return groups_.checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
}

Result<core::Sweep> SqliteStore::oldest(core::Seq from, std::int64_t limit) {
  core::Sweep sweep;
  HOLDFAST_TRY(const std::int64_t pages, query_int(connection_.get(), "PRAGMA page_count"));
  HOLDFAST_TRY(const std::int64_t free, query_int(connection_.get(), "PRAGMA freelist_count"));
  HOLDFAST_TRY(const std::int64_t bytes, query_int(connection_.get(), "PRAGMA page_size"));
  sweep.used_bytes = (pages - free) * bytes;
  HOLDFAST_TRY(sweep.rows, requests_.oldest(from, limit));
  return sweep;
}

Result<std::unique_ptr<Backup>> SqliteStore::begin_backup(const std::string& path) {
  return Backup::begin(connection_.get(), options_.state_dir, path);
}

Result<Store::Stats> SqliteStore::stats() {
  const auto number = [this](const std::string& sql) { return query_int(connection_.get(), sql); };
  Stats stats;
  HOLDFAST_TRY(stats.page_bytes, number("PRAGMA page_size"));
  HOLDFAST_TRY(stats.pages, number("PRAGMA page_count"));
  HOLDFAST_TRY(stats.free_pages, number("PRAGMA freelist_count"));
  HOLDFAST_TRY(stats.schema, number("PRAGMA user_version"));
  stats.wal_pages = wal_pages();
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
