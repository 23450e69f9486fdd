#pragma once
// The connection that writes control.db: its transactions, the snapshot that reads share, syncs,
// checkpoints, and what is left after an I/O error. Not thread-safe: one thread.

#include <cstdint>
#include <optional>
#include <string>

#include "control/core/events.h"
#include "control/store/open.h"
#include "control/store/sqlite.h"
#include "control/store/store.h"

namespace holdfast::store {

/// One open database: its statements, its transaction, and the faults of its disk. Not thread-safe.
class Connection {
 public:
  /// Takes over a database that open_database() made ready.
  Connection(Db db, const OpenOptions& options);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Result<void> prepare();
  sqlite3* get() const { return db_.get(); }

  // ---- transactions
  /// Sets whether commits sync the log.
  Result<void> set_synchronous(core::Durability durability);
  /// Begins a transaction that writes. end_reads() comes before it.
  Result<void> begin() { return begin_.use().run(); }
  Result<void> commit() { return commit_.use().run(); }
  /// Rolls back an open transaction, if an error has not done so already.
  void roll_back();
  /// Begins one transaction for the reads of single rows while a group is taken in, if none is
  /// open: each read of its own would take and release a file lock.
  Result<void> begin_reads();
  Result<void> end_reads();

  // ---- checkpoints
  std::int64_t wal_pages() const { return wal_pages_; }
  /// Returns the mode of the checkpoint that the length of the log asks for; none: not yet.
  std::optional<int> due_checkpoint(bool idle) const;
  /// Moves the log into the main file. Returns false if a reader is in the way or the disk is full;
  /// then the log holds everything. Another error stops all writing.
  Result<bool> checkpoint(int mode);

  // ---- failures
  /// Stops all writing, also at the close: the file's content is unknown.
  void stop_writing();
  /// Returns true after stop_writing().
  bool has_failed() const { return failed_; }

 private:
  Db db_;
  std::int64_t idle_checkpoint_pages_, busy_checkpoint_pages_, truncate_pages_;
  core::Durability synchronous_ = core::Durability::kFull;
  std::int64_t wal_pages_ = 0;
  bool reading_ = false;  // inside begin_reads()
  bool failed_ = false;   // after an I/O error, which leaves the file's content unknown
  Statement begin_, commit_, begin_reads_;
};

}  // namespace holdfast::store
