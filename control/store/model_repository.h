#pragma once
// Models and their loads: the tables models, model_blobs, loads, reservations and transitions.

#include <string>
#include <vector>

#include "control/core/rows.h"
#include "control/store/connection.h"
#include "control/store/select.h"
#include "control/store/store.h"
#include "control/store/write_statements.h"

namespace holdfast::store {

inline constexpr Columns kModelColumns{
    "name",    "sha",           "path",     "size",          "mtime_ns",     "architecture",
    "context", "slots",         "pages",    "prefill_chunk", "kv_type",      "vocab",
    "chat",    "weights_bytes", "kv_bytes", "scratch_bytes", "options",      "shape",
    "wanted",  "state",         "reason",   "created_ms",    "last_used_ms", "tokenizer_sha",
    "output",  "profile"};
inline constexpr Columns kModelBlobColumns{"sha", "tokenizer", "pieces"};
inline constexpr Columns kLoadColumns{"load_id",     "model",       "model_sha", "worker_key",
                                      "incarnation", "state",       "class",     "slots",
                                      "pages",       "page_tokens", "context",   "reason",
                                      "created_ms",  "ready_ms",    "ended_ms"};
inline constexpr Columns kReservationColumns{"load_id", "worker_key", "bytes"};
inline constexpr Columns kTransitionColumns{"subject", "key",           "from_state",   "to_state",
                                            "at_ms",   "memory_before", "memory_after", "reason"};

/// Reads and writes models, loads and their histories.
class ModelRepository {
 public:
  explicit ModelRepository(Connection& connection) : connection_(connection) {}
  Result<void> prepare();

  // ---- inside the transaction of a group
  Result<void> write(const core::PutModel& c);
  Result<void> write(const core::PutModelBlobs& c);
  Result<void> write(const core::DeleteModel& c);
  Result<void> write(const core::PutLoad& c);
  Result<void> write(const core::InsertTransition& c);

  // ---- reads
  /// Reads all models; a damaged one has failed.
  Result<std::vector<core::ModelRow>> load_models();
  /// Reads the loads that have not ended or still hold memory.
  Result<std::vector<core::LoadRow>> load_loads();
  /// Returns empty blobs for an unknown hash.
  Result<ModelBlobs> model_blobs(const std::string& sha);

 private:
  Connection& connection_;
  Insert<kModelColumns> put_model_;
  Insert<kModelBlobColumns> put_blobs_;
  Insert<kLoadColumns> put_load_;
  Insert<kReservationColumns> put_reservation_;
  Insert<kTransitionColumns> insert_transition_;
  Statement delete_model_, delete_reservation_;
  CheckedSelect<kModelBlobColumns> blobs_;
};

}  // namespace holdfast::store
