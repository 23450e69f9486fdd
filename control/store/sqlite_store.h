#pragma once
// The only implementation of Store: a connection, and a repository for the rows of each kind. Here
// are the order in which a start opens and reads them, and the life of a group.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/store/alias_repository.h"
#include "control/store/connection.h"
#include "control/store/group_count.h"
#include "control/store/meta_repository.h"
#include "control/store/model_repository.h"
#include "control/store/object_repository.h"
#include "control/store/request_repository.h"
#include "control/store/store.h"
#include "control/store/token_repository.h"

namespace holdfast::store {

/// The store in SQLite: a connection and its repositories.
class SqliteStore final : public Store {
 public:
  SqliteStore(std::optional<StateLock> lock, Disk& disk, Db db, OpenOptions options);
  /// Prepares all statements, reads the tail, and compares the database with its log mark.
  Result<void> start();

  Result<std::uint64_t> raise_epoch(std::int64_t wall_ms) override;
  Result<void> make_secret(const std::string& name, std::string_view value) override;
  Result<std::string> secret(const std::string& name) override { return meta_.secret(name); }
  Result<core::Boot> load(std::int64_t queued_max, std::int64_t keys_since_ms) override;
  Result<core::BootQueuePage> load_queue_page(std::int64_t limit) override {
    return requests_.load_queue_page(limit);
  }
  Result<std::vector<core::ConfigVersion>> config_versions() override {
    return meta_.config_versions();
  }
  Result<void> apply(std::span<const core::RowChange> rows, core::Durability durability) override;
  Result<std::optional<core::BootRequest>> find_by_id(const std::string& id) override {
    return requests_.find_by_id(id);
  }
  Result<std::optional<core::BootRequest>> find_by_key(const std::string& tenant,
                                                       const std::string& idem_key) override {
    return requests_.find_by_key(tenant, idem_key);
  }
  Result<std::vector<core::TokenId>> prompt_ids(core::Seq seq, std::int32_t prompt) override {
    return requests_.prompt_ids(seq, prompt);
  }
  Result<std::vector<std::string>> prompt_text(core::Seq seq) override {
    return requests_.prompt_text(seq);
  }
  Result<domain::TokenRun> tokens(core::Seq seq, std::int32_t choice, std::int64_t start,
                                  std::int64_t end) override {
    return tokens_.tokens(seq, choice, start, end);
  }
  Result<ModelBlobs> model_blobs(const std::string& sha) override {
    return models_.model_blobs(sha);
  }
  Result<RequestPage> list_requests(const RequestSearch& search) override {
    return requests_.list(search);
  }
  Result<std::vector<Attempt>> attempts(core::Seq seq) override { return requests_.attempts(seq); }
  Result<std::vector<core::AliasHistoryRow>> alias_history(const std::string& alias,
                                                           std::int64_t limit) override {
    return aliases_.history(alias, limit);
  }
  Result<std::vector<core::CanaryRow>> canaries(const std::string& alias,
                                                std::int64_t limit) override {
    return aliases_.canaries(alias, limit);
  }
  Result<std::vector<core::CanaryWindowRow>> canary_windows(const std::string& alias,
                                                            std::int64_t limit) override {
    return aliases_.canary_windows(alias, limit);
  }
  Result<std::optional<core::ObjectRow>> find_object(const std::string& kind,
                                                     const std::string& id) override {
    return objects_.find(kind, id);
  }
  Result<std::vector<core::ObjectRow>> list_objects(const ObjectQuery& query) override {
    return objects_.list(query);
  }
  Result<std::string> object_content(core::Seq seq, std::int64_t from,
                                     std::int64_t limit) override {
    return objects_.content(seq, from, limit);
  }
  Result<std::vector<core::Seq>> expired_objects(std::int64_t now_ms, std::int64_t limit) override {
    return objects_.expired(now_ms, limit);
  }
  Result<ObjectTotals> object_totals() override { return objects_.totals(); }
  Result<std::unique_ptr<Backup>> begin_backup(const std::string& path) override;
  Result<Stats> stats() override;
  Result<core::Sweep> oldest(core::Seq from, std::int64_t limit) override;
  Result<void> checkpoint_if_due(bool idle) override;
  Result<void> checkpoint_all() override;
  void release_memory() override { (void)sqlite3_db_release_memory(connection_.get()); }
  std::int64_t wal_pages() const override { return connection_.wal_pages(); }
  Result<std::optional<LogLoss>> log_loss() const override;
  std::int64_t disk_free() const override;
  bool release_reserve() override;
  void restore_reserve() override;
  void set_reserve(std::int64_t bytes) override;

 private:
  Result<void> prepare();
  Result<std::uint64_t> insert_epoch(std::int64_t wall_ms);
  Result<std::uint64_t> write_epoch(std::int64_t wall_ms);
  Result<void> begin_write_commit(std::span<const core::RowChange> rows, bool synced);
  template <class Change>
  Result<void> write(const Change& change);
  Result<void> write(const core::AliasChange& change);
  std::string reserve_path() const { return options_.state_dir + "/control.reserve"; }

  std::optional<StateLock> lock_;  // first in, last out
  Disk& disk_;
  OpenOptions options_;
  Connection connection_;
  GroupCount groups_{connection_};
  MetaRepository meta_{connection_};
  TokenRepository tokens_{connection_, options_.tail_rows};
  RequestRepository requests_{connection_, tokens_};
  ModelRepository models_{connection_};
  AliasRepository aliases_{connection_};
  ObjectRepository objects_{connection_};
};

}  // namespace holdfast::store
