#pragma once
// The only implementation of Store, in write.cpp (row changes), read.cpp, store.cpp, aliases.cpp,
// objects.cpp and secrets.cpp.

#include <initializer_list>
#include <string>

#include "control/store/log_mark.h"
#include "control/store/open.h"
#include "control/store/store.h"
#include "control/store/summed.h"
#include "control/store/tail.h"

namespace holdfast::store {

class SqliteStore final : public Store {
 public:
  SqliteStore(std::optional<StateLock> lock, Disk& disk, Db db, OpenOptions options);
  ~SqliteStore() override;
  Result<void> prepare();
  Result<void> load_tail();
  /// Compares the database with its log mark.
  Result<void> check_log();

  Result<std::uint64_t> raise_epoch(std::int64_t wall_ms) override;
  Result<void> make_secret(const std::string& name, std::string_view value) override;
  Result<std::string> secret(const std::string& name) override;
  Result<core::Boot> load(std::int64_t queued_max, std::int64_t keys_since_ms) override;
  Result<core::BootQueuePage> load_queue_page(std::int64_t limit) override;
  Result<std::vector<core::ConfigVersion>> config_versions() override;
  Result<void> apply(std::span<const core::RowChange> rows, core::Durability durability) override;
  Result<std::optional<core::BootRequest>> find_by_id(const std::string& id) override;
  Result<std::optional<core::BootRequest>> find_by_key(const std::string& tenant,
                                                       const std::string& idem_key) override;
  Result<std::vector<core::TokenId>> prompt_ids(core::Seq seq, std::int32_t prompt) override;
  Result<std::vector<std::string>> prompt_text(core::Seq seq) override;
  Result<TokenSpan> tokens(core::Seq seq, std::int32_t choice, std::int64_t start,
                           std::int64_t end) override;
  Result<ModelBlobs> model_blobs(const std::string& sha) override;
  Result<RequestPage> list_requests(const RequestSearch& search) override;
  Result<std::vector<Attempt>> attempts(core::Seq seq) override;
  Result<std::vector<core::AliasHistoryRow>> alias_history(const std::string& alias,
                                                           std::int64_t limit) override;
  Result<std::vector<core::CanaryRow>> canaries(const std::string& alias,
                                                std::int64_t limit) override;
  Result<std::vector<core::CanaryWindowRow>> canary_windows(const std::string& alias,
                                                            std::int64_t limit) override;
  Result<std::optional<core::ObjectRow>> find_object(const std::string& kind,
                                                     const std::string& id) override;
  Result<std::vector<core::ObjectRow>> list_objects(const ObjectQuery& query) override;
  Result<std::string> object_content(core::Seq seq, std::int64_t from, std::int64_t limit) override;
  Result<std::vector<core::Seq>> expired_objects(std::int64_t now_ms, std::int64_t limit) override;
  Result<ObjectTotals> object_totals() override;
  Result<std::unique_ptr<Backup>> begin_backup(const std::string& path) override;
  Result<Stats> stats() override;
  Result<core::Sweep> oldest(core::Seq from, std::int64_t limit) override;
  Result<void> checkpoint_if_due(bool idle) override;
  Result<void> checkpoint_all() override;
  void release_memory() override { (void)sqlite3_db_release_memory(db_.get()); }
  std::int64_t wal_pages() const override { return wal_pages_; }
  Result<std::optional<LogLoss>> log_loss() const override;
  std::int64_t disk_free() const override;
  bool release_reserve() override;
  void restore_reserve() override;
  void set_reserve(std::int64_t bytes) override;

 private:
  struct Prepared {
    Statement* statement;
    const char* sql;
  };
  Result<void> prepare_all(std::initializer_list<Prepared> list);
  Result<void> prepare_writes();
  Result<void> prepare_checked();
  Result<void> prepare_summed();
  Result<void> prepare_sound_reads();
  Result<void> prepare_reads();
  Result<void> set_synchronous(core::Durability durability);
  Result<std::uint64_t> insert_epoch(std::int64_t wall_ms);
  void stop_writing();
  Result<void> begin_reads();
  Result<void> end_reads();
  Result<void> begin_write_commit(std::span<const core::RowChange> rows, bool synced);
  Result<void> count_group();
  Result<std::uint64_t> write_epoch(std::int64_t wall_ms);
  Result<void> settle_tail();
  Result<void> checkpoint(int mode);
  std::string reserve_path() const { return options_.state_dir + "/control.reserve"; }

  Result<void> write(const core::InsertRequest& c);
  Result<void> write(const core::UpdateRequest& c);
  Result<void> write(const core::UpdateChoice& c);
  Result<void> write(const core::InsertChunk& c);
  Result<void> write(const core::BeginAttempt& c);
  Result<void> write(const core::EndAttempt& c);
  Result<void> write(const core::PutModel& c);
  Result<void> write(const core::PutModelBlobs& c);
  Result<void> write(const core::DeleteModel& c);
  Result<void> write(const core::PutLoad& c);
  Result<void> write(const core::InsertTransition& c);
  Result<void> write(const core::PutFlag& c);
  Result<void> write(const core::InsertConfigVersion& c);
  Result<void> write(const core::DeleteRequest& c);
  Result<void> write(const core::AliasChange& c);
  Result<void> write(const core::PutObject& c);
  Result<void> write(const core::DeleteObject& c);
  Result<void> write_alias(const core::PutAlias& c);
  Result<void> write_alias(const core::DeleteAlias& c);
  Result<void> write_alias(const core::InsertAliasHistory& c);
  Result<void> write_alias(const core::PutCanary& c);
  Result<void> write_alias(const core::InsertCanaryWindow& c);
  Result<void> write_alias(const core::RerouteRequest& c);

  Result<std::map<std::string, std::string>> flags_below(const std::string& prefix);
  Result<std::vector<core::ModelRow>> load_models();
  Result<std::vector<core::LoadRow>> load_loads();
  Result<std::vector<core::AliasRow>> load_aliases();
  Result<std::vector<core::CanaryRow>> load_canaries();
  Result<std::vector<core::KeyUse>> load_keys(std::int64_t since_ms);
  Result<void> load_where(Statement::Use& rows, std::vector<core::BootRequest>& into);
  Result<void> load_committed(core::BootRequest& request);
  Result<std::optional<core::BootRequest>> read_request(Statement& by, std::string_view a,
                                                        std::string_view b);
  Result<void> read_details(core::BootRequest& request);
  Result<void> note_damage(core::BootRequest& request, const Error& error);

  std::optional<StateLock> lock_;  // first in, last out
  Disk& disk_;
  Db db_;
  OpenOptions options_;
  core::Durability synchronous_ = core::Durability::kFull;
  Tail tail_;
  StayingSums sums_;
  LogMark mark_;
  std::int64_t synced_ = 0;                   // groups that were ever committed and synced
  std::optional<std::uint64_t> mark_others_;  // part of log_mark's checksum without `synced`
  std::int64_t epoch_ = 0;
  std::optional<LogLoss> found_loss_;  // by this opening, not in the database yet
  std::int64_t wal_pages_ = 0;
  bool reading_ = false;     // inside begin_reads()
  core::Seq read_upto_ = 0;  // in the queue as it was at the start
  core::Seq last_seq_ = 0;   // at the start
  bool failed_ = false;      // after an I/O error, which leaves the file's content unknown

  Statement begin_, commit_, begin_reads_;
  SummedStatement insert_request_, insert_payload_, insert_choice_, begin_attempt_, put_object_;
  SummedUpdate update_request_, update_choice_, end_attempt_, count_synced_;
  Statement insert_settled_, insert_tail_, empty_tail_, delete_tail_;
  Statement put_model_, put_blobs_, delete_model_, put_load_, put_reservation_, delete_reservation_;
  Statement insert_transition_, put_flag_, insert_config_;
  Statement delete_payload_, delete_choices_, delete_settled_, delete_attempts_, delete_request_;
  Statement append_object_, find_object_;
  Statement oldest_;
  Statement queued_, by_id_, by_key_, payload_, choices_, open_attempts_, settled_, blobs_;
};

}  // namespace holdfast::store
