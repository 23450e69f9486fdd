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

/// With this many pages in the log an idle moment is worth a checkpoint.
inline constexpr std::int64_t kIdleCheckpointPages = 1000;
inline constexpr const char* kLogLostFlag = "log.lost";
inline constexpr std::int32_t kApplicationId = 0x48465354;  // "HFST"

struct OpenOptions {
  std::string state_dir;  // exists
  std::string role = "daemon";
  std::int64_t lock_wait_ms = 5000;
  std::int64_t max_pages = 0;      // cap of the file in pages of 4 KiB, 0 = none: then kDiskFull
  std::int64_t reserve_bytes = 0;  // size of the file that make_room() gives up
  // Pages in the log: checkpoint when idle, between two groups, and whatever readers do (64 MiB).
  // A thousand pages hold commits up for some 15 ms.
  std::int64_t idle_checkpoint_pages = kIdleCheckpointPages;
  std::int64_t busy_checkpoint_pages = 1000;
  std::int64_t truncate_pages = 16'384;
  std::int64_t tail_rows = 4096;  // of the newest tokens, before they move to their requests
  Disk* disk = nullptr;           // nullptr: the machine's own; another one has no lock file
};

class Backup;  // control/store/backup.h

struct TokenSpan {
  std::vector<core::TokenId> ids;
  std::vector<std::string> extra;  // per token, or empty if none has any
};

struct ModelBlobs {
  std::string tokenizer;
  std::string pieces;
};

class Store {
 public:
  /// kConflict: another owner (its pid is named). kVersionNewer: made by a newer program. kCorrupt:
  /// not a database of ours, or damaged. kIo: directory not writable.
  static Result<std::unique_ptr<Store>> open(const OpenOptions& options);
  virtual ~Store() = default;

  /// Inserts the next epoch and syncs it. Once, before any socket is bound.
  virtual Result<std::uint64_t> raise_epoch(std::int64_t wall_ms) = 0;
  /// A secret of this database: made from `value` if it is not there yet, and synced. Before any
  /// socket is bound.
  virtual Result<void> make_secret(const std::string& name, std::string_view value) = 0;
  /// Empty if there is none of this name. Never to be shown.
  virtual Result<std::string> secret(const std::string& name) = 0;
  /// What the machine starts from: models, loads, live requests with committed ids, no prompts. Of
  /// those that wait in the queue only the first `queued_max`; load_more() has the rest.
  /// The uses of keys are those since `keys_since_ms` (wall).
  virtual Result<core::Boot> load(std::int64_t queued_max = INT64_MAX,
                                  std::int64_t keys_since_ms = INT64_MAX) = 0;
  /// The newest versions of the configuration, oldest first. load() has them too.
  virtual Result<std::vector<core::ConfigVersion>> config_versions() = 0;
  /// The next `limit` requests that wait in the queue since before the start; `last` with the end.
  virtual Result<core::BootMore> load_more(std::int64_t limit) = 0;

  /// All changes in one transaction: all or nothing. kFull is on the disk when this returns.
  /// kDiskFull: nothing was written, may be tried again. kStorage, kCorrupt: the process must end
  /// (the outcome is unknown).
  virtual Result<void> apply(std::span<const core::RowChange> rows,
                             core::Durability durability) = 0;

  // ---- reads of committed rows; kCorrupt when a checksum does not match. Single rows are read
  // from one snapshot, which apply() and the checkpoints end: a loop calls checkpoint_if_due() each
  // turn.
  virtual Result<std::optional<core::BootRequest>> find_by_id(const std::string& id) = 0;
  virtual Result<std::optional<core::BootRequest>> find_by_key(const std::string& tenant,
                                                               const std::string& idem_key) = 0;
  virtual Result<std::vector<core::TokenId>> prompt_ids(core::Seq seq, std::int32_t prompt) = 0;
  virtual Result<std::vector<std::string>> prompt_text(core::Seq seq) = 0;
  /// Committed tokens [start, end) of a choice, exactly.
  virtual Result<TokenSpan> tokens(core::Seq seq, std::int32_t choice, std::int64_t start,
                                   std::int64_t end) = 0;
  /// Empty blobs for an unknown hash.
  virtual Result<ModelBlobs> model_blobs(const std::string& sha) = 0;
  /// What a list of requests is asked for; empty texts are any.
  struct RequestSearch {
    std::string state = {}, model = {}, tenant = {};  // in full
    std::string id = {};                              // a part of it
    bool oldest_first = false;
    core::Seq from = 0;  // go on after this one; 0: from the end
    std::int64_t limit = 50;
    std::int64_t look_at = 0;  // requests at most, so that what is rare holds up nobody; 0: all
  };
  struct RequestPage {
    std::vector<core::RequestRow> rows;  // without choices
    core::Seq next = 0;                  // `from` of the next page; 0: there is none
  };
  /// With `look_at` a page may have fewer rows than `limit`, or none, and a next one all the same.
  virtual Result<RequestPage> list_requests(const RequestSearch& search) = 0;
  struct Attempt {
    std::int32_t choice = 0;
    core::Fence fence;
    std::string worker_key, incarnation, load_id, reason;
    std::int64_t start_index = 0, end_index = -1, started_ms = 0, ended_ms = 0;
    bool adopted = false;
  };
  virtual Result<std::vector<Attempt>> attempts(core::Seq seq) = 0;

  /// Changes, canaries and their windows of one alias, the newest first.
  virtual Result<std::vector<core::AliasHistoryRow>> alias_history(const std::string& alias,
                                                                   std::int64_t limit) = 0;
  virtual Result<std::vector<core::CanaryRow>> canaries(const std::string& alias,
                                                        std::int64_t limit) = 0;
  virtual Result<std::vector<core::CanaryWindowRow>> canary_windows(const std::string& alias,
                                                                    std::int64_t limit) = 0;

  // ---- what gateways keep
  virtual Result<std::optional<core::ObjectRow>> find_object(const std::string& kind,
                                                             const std::string& id) = 0;
  struct ObjectQuery {
    std::string kind;
    std::string owner;   // empty = anybody's
    core::Seq from = 0;  // beyond this one; 0 = from the beginning (the end, if newest first)
    bool newest_first = true;
    std::int64_t limit = 100;
  };
  virtual Result<std::vector<core::ObjectRow>> list_objects(const ObjectQuery& query) = 0;
  /// At most `limit` bytes of the content from byte `from` on: the rest of one part, or whole
  /// parts.
  virtual Result<std::string> object_content(core::Seq seq, std::int64_t from,
                                             std::int64_t limit) = 0;
  /// Those whose time is over.
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

  /// A copy that grows by Backup::step() while commits go on. It must end before the store.
  virtual Result<std::unique_ptr<Backup>> begin_backup(const std::string& path) = 0;
  struct Stats {
    std::int64_t page_bytes = 0, pages = 0, free_pages = 0, wal_pages = 0, disk_free = 0;
    std::int64_t schema = 0;
    std::vector<std::pair<std::string, std::int64_t>> rows;  // by table
  };
  /// Sizes and row counts; reads every table's smallest index once.
  virtual Result<Stats> stats() = 0;

  /// Up to `limit` requests with seq >= `from`, oldest first, and the bytes in use.
  virtual Result<core::Sweep> oldest(core::Seq from, std::int64_t limit) = 0;

  /// A PASSIVE checkpoint when the log is long, or shorter and the caller idle; TRUNCATE when it is
  /// far too long. Never fails the caller for BUSY.
  virtual Result<void> checkpoint_if_due(bool idle) = 0;
  /// Everything into the main file, for a clean stop.
  virtual Result<void> checkpoint_all() = 0;
  /// Gives back what only makes things faster, for a quiet moment.
  virtual void release_memory() = 0;
  virtual std::int64_t wal_pages() const = 0;
  /// The log that an opening found to end too early, until PutFlag{kLogLostFlag, ""} accepts it.
  virtual Result<std::optional<LogLoss>> log_loss() const = 0;
  /// Free bytes of the disk for this user.
  virtual std::int64_t disk_free() const = 0;
  /// Gives up the reserve file. True if there was one.
  virtual bool make_room() = 0;
  /// Its size from now on; makes it.
  virtual void set_reserve(std::int64_t bytes) = 0;
  /// Makes the reserve file again, if the disk has plenty.
  virtual void restore_reserve() = 0;
};

/// CRC-32C (Castagnoli), as kept with chunks and prompts.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t seed = 0);
/// The same where the processor has no instruction for it.
std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t seed = 0);

}  // namespace holdfast::store
