#pragma once
// Requests and what belongs to them: the tables requests, payloads, choices and attempts. Their
// tokens are in token_repository.h. Rows that each group writes are summed in the process.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/core/events.h"
#include "control/core/rows.h"
#include "control/store/connection.h"
#include "control/store/select.h"
#include "control/store/store.h"
#include "control/store/summed.h"
#include "control/store/token_repository.h"

namespace holdfast::store {

inline constexpr Columns kRequestColumns{"seq",
                                         "id",
                                         "tenant",
                                         "idem_key",
                                         "body_hash",
                                         "model",
                                         "model_sha",
                                         "state",
                                         "priority",
                                         "class",
                                         "config_version",
                                         "n",
                                         "max_tokens",
                                         "on_disconnect",
                                         "created_ms",
                                         "started_ms",
                                         "finished_ms",
                                         "queue_deadline_ms",
                                         "total_deadline_ms",
                                         "error_code",
                                         "error",
                                         "alias",
                                         "route_key",
                                         "canary",
                                         "rerouted_from",
                                         "api_key"};
inline constexpr Columns kRequestChanging{"state",       "priority",   "class", "started_ms",
                                          "finished_ms", "error_code", "error"};
inline constexpr Columns kRequestKey{"seq"};
inline constexpr Columns kPayloadColumns{"seq", "params", "meta", "prompt_text", "crc", "prompts"};
inline constexpr Columns kNewChoiceColumns{"seq",           "choice",     "prompt",
                                           "prompt_tokens", "next_index", "finish"};
inline constexpr Columns kChoiceChanging{"next_index", "finish", "error_code",
                                         "error",      "deaths", "deaths_index"};
inline constexpr Columns kChoiceKey{"seq", "choice"};
inline constexpr Columns kChoiceColumns{"choice", "prompt",       "next_index",
                                        "finish", "error_code",   "error",
                                        "deaths", "deaths_index", "prompt_tokens"};
inline constexpr Columns kNewAttemptColumns{
    "seq",         "choice",  "fence_epoch", "fence_counter", "worker_key",
    "incarnation", "load_id", "start_index", "adopted",       "started_ms"};
inline constexpr Columns kAttemptChanging{"ended_ms", "end_index", "reason"};
inline constexpr Columns kAttemptKey{"seq", "choice", "fence_epoch", "fence_counter"};
inline constexpr Columns kOpenAttemptColumns{"choice",     "fence_epoch", "fence_counter",
                                             "worker_key", "incarnation", "load_id"};
inline constexpr Columns kOldestColumns{"seq", "finished_ms"};

/// Reads and writes requests, choices, prompts and attempts.
class RequestRepository {
 public:
  RequestRepository(Connection& connection, TokenRepository& tokens)
      : connection_(connection), tokens_(tokens) {}
  Result<void> prepare();

  // ---- what a start reads
  /// Reads the last seq, up to which load_queue_page() reads the queue from its beginning.
  Result<core::Seq> begin_load();
  Result<std::int64_t> count_queued();
  /// Reads the live requests that are not in the queue.
  Result<std::vector<core::BootRequest>> load_started();
  Result<core::BootQueuePage> load_queue_page(std::int64_t limit);
  /// Returns the live requests of each API key, and the times since `since_ms` at which some were
  /// accepted.
  Result<std::vector<core::KeyUse>> load_keys(std::int64_t since_ms);

  // ---- inside the transaction of a group
  Result<void> write(const core::InsertRequest& c);
  Result<void> write(const core::UpdateRequest& c);
  Result<void> write(const core::UpdateChoice& c);
  Result<void> write(const core::BeginAttempt& c);
  Result<void> write(const core::EndAttempt& c);
  Result<void> write(const core::RerouteRequest& c);
  Result<void> write(const core::DeleteRequest& c);
  /// Forgets what rolled back.
  void rollback() { sums_.clear(); }

  // ---- reads; as in Store
  Result<std::optional<core::BootRequest>> find_by_id(const std::string& id);
  Result<std::optional<core::BootRequest>> find_by_key(const std::string& tenant,
                                                       const std::string& idem_key);
  Result<std::vector<core::TokenId>> prompt_ids(core::Seq seq, std::int32_t prompt);
  Result<std::vector<std::string>> prompt_text(core::Seq seq);
  Result<Store::RequestPage> list(const Store::RequestSearch& search);
  Result<std::vector<Store::Attempt>> attempts(core::Seq seq);
  Result<std::vector<core::Sweep::Row>> oldest(core::Seq from, std::int64_t limit);

 private:
  using RequestRows = CheckedRows<kRequestColumns>;

  Result<void> prepare_writes();
  Result<void> prepare_reads();
  Result<void> insert_payload(core::Seq seq, const core::PayloadRow& payload);
  Result<void> load_where(RequestRows& rows, std::vector<core::BootRequest>& into);
  Result<void> load_committed(core::BootRequest& request);
  Result<void> load_open_attempts(core::BootRequest& request);
  Result<std::optional<core::BootRequest>> read_request(CheckedSelect<kRequestColumns>& by,
                                                        std::string_view a, std::string_view b);
  Result<void> read_details(core::BootRequest& request);
  Result<void> read_choices(core::BootRequest& request, std::optional<Error>& wrong);
  Result<void> note_damage(core::BootRequest& request, const Error& error);

  Connection& connection_;
  TokenRepository& tokens_;
  StayingSums sums_;
  core::Seq read_upto_ = 0;  // in the queue as it was at the start
  core::Seq last_seq_ = 0;   // at the start

  SummedInsert<kRequestColumns, kRequestChanging> insert_request_;
  SummedInsert<kPayloadColumns> insert_payload_;
  SummedInsert<kNewChoiceColumns, kChoiceChanging> insert_choice_;
  SummedInsert<kNewAttemptColumns, kAttemptChanging> begin_attempt_;
  SummedUpdate<kRequestChanging, kRequestKey> update_request_;
  SummedUpdate<kChoiceChanging, kChoiceKey> update_choice_;
  SummedUpdate<kAttemptChanging, kAttemptKey> end_attempt_;
  Statement delete_payload_, delete_choices_, delete_attempts_, delete_request_;
  CheckedSelect<kRequestColumns> queued_, by_id_, by_key_;
  CheckedSelect<kPayloadColumns> payload_;
  CheckedSelect<kChoiceColumns> choices_;
  CheckedSelect<kOpenAttemptColumns> open_attempts_;
  Select<kOldestColumns> oldest_;
};

}  // namespace holdfast::store
