#pragma once
// control.db: opened, checked, migrated; written by group commits of the machine's row changes. One
// process (StateLock) and one connection write and checkpoint. Not thread-safe: one thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/core/events.h"
#include "control/core/rows.h"
#include "control/store/lock.h"
#include "control/store/log_mark.h"
#include "shared/base/result.h"

namespace holdfast::store {

/// Pages in the log from which an idle moment is worth a checkpoint.
inline constexpr std::int64_t kIdleCheckpointPages = 1000;
inline constexpr const char* kLogLostFlag = "log.lost";
inline constexpr std::int32_t kApplicationId = 0x48465354;  // "HFST"

/// Options of Store::open().
struct OpenOptions {
  std::string state_dir;  // exists
  std::string role = "daemon";
  std::int64_t lock_wait_ms = 5000;
  std::int64_t max_pages = 0;      // cap of the file in pages of 4 KiB, 0 = none: then kDiskFull
  std::int64_t reserve_bytes = 0;  // size of the file that release_reserve() removes
  // Pages in the log from which it is checkpointed: when idle, between two groups, and without
  // regard to readers (64 MiB). A thousand pages delay commits by some 15 ms.
  std::int64_t idle_checkpoint_pages = kIdleCheckpointPages;
  std::int64_t busy_checkpoint_pages = 1000;
  std::int64_t truncate_pages = 16'384;
  std::int64_t tail_rows = 4096;  // newest tokens in the tail, before they move to their requests
  Disk* disk = nullptr;           // nullptr: the machine's own
  std::int64_t epoch_min = 0;     // raise_epoch() gives none below it
};

class Backup;  // control/store/backup.h

/// The texts that belong to a file of weights.
struct ModelBlobs {
  std::string tokenizer;
  std::string detokenizer;
};

/// The database as the daemon sees it. Not thread-safe; tests have implementations that fail on
/// purpose.
class Store {
 public:
  /// Opens DIR/control.db, made if it is missing. kConflict: another owner (its pid is named).
  /// kVersionNewer: made by a newer program. kCorrupt: no database of this program, or damaged.
  /// kIo: directory not writable.
  static Result<std::unique_ptr<Store>> open(const OpenOptions& options);
  virtual ~Store() = default;

  /// Inserts the next epoch and syncs it. Call it once, before any socket is bound.
  virtual Result<std::uint64_t> raise_epoch(std::int64_t wall_ms) = 0;
  /// Makes a secret of this database from `value` if there is none of this name, and syncs it. Call
  /// it before any socket is bound.
  virtual Result<void> make_secret(const std::string& name, std::string_view value) = 0;
  /// Returns a secret; empty if there is none of this name. It must never be shown.
  virtual Result<std::string> secret(const std::string& name) = 0;
  /// Reads what the machine starts from: models, loads, live requests with committed ids, no
  /// prompts. Only the first `queued_max` queued requests are read; load_queue_page() has the rest.
  /// Uses of keys are those since `keys_since_ms` (wall).
  virtual Result<core::Boot> load(std::int64_t queued_max = INT64_MAX,
                                  std::int64_t keys_since_ms = INT64_MAX) = 0;
  /// Returns the newest versions of the configuration, oldest first. load() has them too.
  virtual Result<std::vector<core::ConfigVersion>> config_versions() = 0;
  /// Reads the next `limit` requests of the queue as it was at the start; `last` is set at its end.
  virtual Result<core::BootQueuePage> load_queue_page(std::int64_t limit) = 0;

  /// Writes all changes in one transaction: all or nothing. kFull is on the disk when this returns.
  /// kDiskFull: nothing was written, may be tried again. kStorage, kCorrupt: the process must end
  /// (the outcome is unknown).
  virtual Result<void> apply(std::span<const core::RowChange> rows,
                             core::Durability durability) = 0;

  // ---- reads of committed rows; kCorrupt when a checksum does not match. Single rows are read
  // from one snapshot, which apply() and the checkpoints end: a loop must call checkpoint_if_due()
  // each time around.
  virtual Result<std::optional<core::BootRequest>> find_by_id(const std::string& id) = 0;
  virtual Result<std::optional<core::BootRequest>> find_by_key(const std::string& tenant,
                                                               const std::string& idem_key) = 0;
  virtual Result<std::vector<core::TokenId>> prompt_ids(core::Seq seq, std::int32_t prompt) = 0;
  virtual Result<std::vector<std::string>> prompt_text(core::Seq seq) = 0;
  /// Returns exactly the committed tokens [start, end) of a choice.
  virtual Result<domain::TokenRun> tokens(core::Seq seq, std::int32_t choice, std::int64_t start,
                                          std::int64_t end) = 0;
  /// Returns empty blobs for an unknown hash.
  virtual Result<ModelBlobs> model_blobs(const std::string& sha) = 0;
  /// Filter of a list of requests; empty texts match any.
  struct RequestSearch {
    std::string state = {}, model = {}, tenant = {};  // in full
    std::string id = {};                              // a part of it
    bool oldest_first = false;
    core::Seq from = 0;  // begins after this one; 0: at the end
    std::int64_t limit = 50;
    std::int64_t look_at = 0;  // requests at most, so that a rare match delays nobody; 0: all
  };
  struct RequestPage {
    std::vector<core::RequestRow> rows;  // without choices
    core::Seq next = 0;                  // `from` of the next page; 0: there is none
  };
  /// Lists requests. With `look_at` a page may have fewer rows than `limit`, or none, and still a
  /// next page.
  virtual Result<RequestPage> list_requests(const RequestSearch& search) = 0;
  struct Attempt {
    std::int32_t choice = 0;
    core::Fence fence;
    std::string worker_key, incarnation, load_id, reason;
    std::int64_t start_index = 0, end_index = -1, started_ms = 0, ended_ms = 0;
    bool adopted = false;
  };
  virtual Result<std::vector<Attempt>> attempts(core::Seq seq) = 0;

  /// Returns the changes, canaries and their windows of one alias, the newest first.
  virtual Result<std::vector<core::AliasHistoryRow>> alias_history(const std::string& alias,
                                                                   std::int64_t limit) = 0;
  virtual Result<std::vector<core::CanaryRow>> canaries(const std::string& alias,
                                                        std::int64_t limit) = 0;
  virtual Result<std::vector<core::CanaryWindowRow>> canary_windows(const std::string& alias,
                                                                    std::int64_t limit) = 0;

  // ---- the object store
  virtual Result<std::optional<core::ObjectRow>> find_object(const std::string& kind,
                                                             const std::string& id) = 0;
  struct ObjectQuery {
    std::string kind;
    std::string owner;   // empty = any
    core::Seq from = 0;  // begins after this one; 0 = from the beginning (the end, if newest first)
    bool newest_first = true;
    std::int64_t limit = 100;
  };
  virtual Result<std::vector<core::ObjectRow>> list_objects(const ObjectQuery& query) = 0;
  /// Returns at most `limit` bytes of the content from byte `from` on: the rest of one part, or
  /// whole parts.
  virtual Result<std::string> object_content(core::Seq seq, std::int64_t from,
                                             std::int64_t limit) = 0;
  /// Returns objects whose time is over.
  virtual Result<std::vector<core::Seq>> expired_objects(std::int64_t now_ms,
                                                         std::int64_t limit) = 0;
  struct ObjectGroup {
    std::string kind, owner;
    std::int64_t count = 0;
    std::int64_t bytes = 0;  // of bodies and contents
  };
  struct ObjectTotals {
    std::int64_t count = 0;
    std::int64_t bytes = 0;
    core::Seq last = 0;
    std::vector<ObjectGroup> groups;  // by kind and owner
  };
  virtual Result<ObjectTotals> object_totals() = 0;

  /// Begins a copy that grows by Backup::step() while commits go on. It must end before the store.
  virtual Result<std::unique_ptr<Backup>> begin_backup(const std::string& path) = 0;
  struct Stats {
    std::int64_t page_bytes = 0, pages = 0, free_pages = 0, wal_pages = 0, disk_free = 0;
    std::int64_t schema = 0;
    std::vector<std::pair<std::string, std::int64_t>> rows;  // by table
  };
  /// Returns sizes and row counts; reads every table's smallest index once.
  virtual Result<Stats> stats() = 0;

  /// Returns up to `limit` requests with seq >= `from`, oldest first, and the bytes in use.
  virtual Result<core::Sweep> oldest(core::Seq from, std::int64_t limit) = 0;

  /// Checkpoints: PASSIVE when the log is long, or shorter and the caller idle; TRUNCATE when it is
  /// far too long. BUSY is no error.
  virtual Result<void> checkpoint_if_due(bool idle) = 0;
  /// Moves all of the log into the main file, for a clean stop.
  virtual Result<void> checkpoint_all() = 0;
  /// Frees caches, in a quiet moment.
  virtual void release_memory() = 0;
  virtual std::int64_t wal_pages() const = 0;
  /// Returns the loss of log that an opening found, until PutFlag{kLogLostFlag, ""} accepts it.
  virtual Result<std::optional<LogLoss>> log_loss() const = 0;
  /// Returns the free bytes of the disk for this user.
  virtual std::int64_t disk_free() const = 0;
  /// Removes the reserve file to free its space. Returns true if there was one.
  virtual bool release_reserve() = 0;
  /// Sets the size of the reserve file and makes it.
  virtual void set_reserve(std::int64_t bytes) = 0;
  /// Makes the reserve file again, if the disk has plenty of space.
  virtual void restore_reserve() = 0;
};

/// Returns the CRC-32C (Castagnoli) that is stored with chunks and prompts.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t seed = 0);
/// Returns the same without the processor's instruction.
std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t seed = 0);

}  // namespace holdfast::store
