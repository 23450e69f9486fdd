#include "control/store/model_repository.h"

#include <utility>

#include "control/store/damage.h"

namespace holdfast::store {
namespace {

constexpr const char* kReplace = "INSERT OR REPLACE";
constexpr const char* kLoadUpsert =
    " ON CONFLICT(load_id) DO UPDATE SET incarnation=excluded.incarnation, state=excluded.state,"
    " class=excluded.class, slots=excluded.slots, pages=excluded.pages,"
    " page_tokens=excluded.page_tokens, context=excluded.context, reason=excluded.reason,"
    " ready_ms=excluded.ready_ms, ended_ms=excluded.ended_ms, checksum=excluded.checksum";

core::ModelRow model_row(const CheckedRows<kModelColumns>& rows) {
  core::ModelRow r;
  r.name = rows.text("name");
  r.sha = rows.text("sha");
  r.path = rows.text("path");
  r.size = rows.integer("size");
  r.mtime_ns = rows.integer("mtime_ns");
  r.architecture = rows.text("architecture");
  r.context = rows.integer("context");
  r.slots = rows.int32("slots");
  r.pages = rows.int32("pages");
  r.prefill_chunk = rows.integer("prefill_chunk");
  r.kv_type = rows.text("kv_type");
  r.vocab = rows.int32("vocab");
  r.chat = rows.flag("chat");
  r.weights_bytes = rows.integer("weights_bytes");
  r.kv_bytes = rows.integer("kv_bytes");
  r.scratch_bytes = rows.integer("scratch_bytes");
  r.options = rows.text("options");
  r.shape = rows.text("shape");
  r.load_requested = rows.flag("wanted");
  r.state = core::model_state_from_name(rows.bytes("state"));
  r.reason = rows.text("reason");
  r.created_ms = rows.integer("created_ms");
  r.last_used_ms = rows.integer("last_used_ms");
  r.tokenizer_sha = rows.text("tokenizer_sha");
  r.output = rows.text("output");
  r.profile = rows.text("profile");
  if (!rows.is_sound()) {
    // One model fails, not the service.
    r.state = core::ModelState::kFailed;
    r.load_requested = false;
    r.path = "(damaged)";  // so that no load trusts the rest of the row
    r.reason = "its row in the database is damaged (see db check); add the model again";
  }
  return r;
}

}  // namespace

Result<void> ModelRepository::prepare() {
  sqlite3* db = connection_.get();
  HOLDFAST_CHECKED(put_model_.prepare(db, "models", kReplace));
  HOLDFAST_CHECKED(put_blobs_.prepare(db, "model_blobs", kReplace));
  HOLDFAST_CHECKED(put_load_.prepare(db, "loads", "INSERT", kLoadUpsert));
  HOLDFAST_CHECKED(put_reservation_.prepare(db, "reservations", kReplace));
  HOLDFAST_CHECKED(insert_transition_.prepare(db, "transitions"));
  HOLDFAST_TRY(delete_model_, Statement::prepare(db, "DELETE FROM models WHERE name=?"));
  HOLDFAST_TRY(delete_reservation_,
               Statement::prepare(db, "DELETE FROM reservations WHERE load_id=?"));
  return blobs_.prepare(db, "model_blobs", "WHERE sha=?");
}

Result<void> ModelRepository::write(const core::PutModel& c) {
  const core::ModelRow& r = c.row;
  auto values = put_model_.values();
  values.set("name", r.name).set("sha", r.sha).set("path", r.path).set("size", r.size);
  values.set("mtime_ns", r.mtime_ns).set("architecture", r.architecture);
  values.set("context", r.context).set("slots", r.slots).set("pages", r.pages);
  values.set("prefill_chunk", r.prefill_chunk).set("kv_type", r.kv_type).set("vocab", r.vocab);
  values.set("chat", r.chat).set("weights_bytes", r.weights_bytes).set("kv_bytes", r.kv_bytes);
  values.set("scratch_bytes", r.scratch_bytes).set("options", r.options).set("shape", r.shape);
  values.set("wanted", r.load_requested).set("state", core::model_state_name(r.state));
  values.set("reason", r.reason).set("created_ms", r.created_ms);
  values.set("last_used_ms", r.last_used_ms).set("tokenizer_sha", r.tokenizer_sha);
  return values.set("output", r.output).set("profile", r.profile).run();
}

Result<void> ModelRepository::write(const core::PutModelBlobs& c) {
  auto values = put_blobs_.values();
  values.set("sha", c.sha).set_blob("tokenizer", c.tokenizer).set_blob("pieces", c.detokenizer);
  return values.run();
}

Result<void> ModelRepository::write(const core::DeleteModel& c) {
  return delete_model_.use().bind(c.name).run();
}

Result<void> ModelRepository::write(const core::PutLoad& c) {
  const core::LoadRow& r = c.row;
  {
    auto values = put_load_.values();
    values.set("load_id", r.load_id).set("model", r.model).set("model_sha", r.model_sha);
    values.set("worker_key", r.worker_key).set("incarnation", r.incarnation);
    values.set("state", core::model_state_name(r.state)).set("class", r.numerics_class);
    values.set("slots", r.slots).set("pages", r.pages).set("page_tokens", r.page_tokens);
    values.set("context", r.context).set("reason", r.reason).set("created_ms", r.created_ms);
    HOLDFAST_CHECKED(values.set("ready_ms", r.ready_ms).set("ended_ms", r.ended_ms).run());
  }
  if (r.bytes <= 0) return delete_reservation_.use().bind(r.load_id).run();
  auto values = put_reservation_.values();
  values.set("load_id", r.load_id).set("worker_key", r.worker_key).set("bytes", r.bytes);
  return values.run();
}

Result<void> ModelRepository::write(const core::InsertTransition& c) {
  auto values = insert_transition_.values();
  values.set("subject", c.subject).set("key", c.key).set("from_state", c.from);
  values.set("to_state", c.to).set("at_ms", c.at_ms).set("memory_before", c.memory_before);
  return values.set("memory_after", c.memory_after).set("reason", c.reason).run();
}

Result<std::vector<core::ModelRow>> ModelRepository::load_models() {
  CheckedSelect<kModelColumns> select;
  HOLDFAST_CHECKED(select.prepare(connection_.get(), "models", "ORDER BY name"));
  std::vector<core::ModelRow> models;
  auto rows = select.rows();
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return models;
    models.push_back(model_row(rows));
  }
}

Result<std::vector<core::LoadRow>> ModelRepository::load_loads() {
  static constexpr Columns kLoad{"load_id",     "model",       "model_sha", "worker_key",
                                 "incarnation", "state",       "class",     "slots",
                                 "pages",       "page_tokens", "context",   "reason",
                                 "created_ms",  "ready_ms",    "ended_ms",  "bytes"};
  CheckedSelect<kLoad> select;
  HOLDFAST_CHECKED(select.prepare_as(
      connection_.get(), "SELECT " + kLoadColumns.list("l.") + ", coalesce(r.bytes, 0) AS bytes, " +
                             sound_row("loads", "l") + " AND (r.bytes IS NULL OR " +
                             sound_row("reservations", "r") +
                             ") AS sound FROM loads l LEFT JOIN reservations r USING (load_id)"
                             " WHERE l.ended_ms = 0 OR l.load_id IN (SELECT load_id FROM"
                             " reservations) ORDER BY l.load_id"));
  std::vector<core::LoadRow> loads;
  auto rows = select.rows();
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return loads;
    core::LoadRow r;
    r.load_id = rows.text("load_id");
    r.model = rows.text("model");
    r.model_sha = rows.text("model_sha");
    r.worker_key = rows.text("worker_key");
    r.incarnation = rows.text("incarnation");
    r.state = core::model_state_from_name(rows.bytes("state"));
    r.numerics_class = rows.text("class");
    r.slots = rows.int32("slots");
    r.pages = rows.int32("pages");
    r.page_tokens = rows.int32("page_tokens");
    r.context = rows.integer("context");
    r.reason = rows.text("reason");
    r.created_ms = rows.integer("created_ms");
    r.ready_ms = rows.integer("ready_ms");
    r.ended_ms = rows.integer("ended_ms");
    r.bytes = rows.integer("bytes");
    if (!rows.is_sound()) return damaged_at_start("loads", r.load_id);
    loads.push_back(std::move(r));
  }
}

Result<ModelBlobs> ModelRepository::model_blobs(const std::string& sha) {
  auto row = blobs_.rows();
  HOLDFAST_TRY(const bool there, row.bind(sha).step());
  if (!there) return ModelBlobs{};
  if (!row.is_sound()) {
    return Error{Errc::kCorrupt, "model_blobs: the tokenizer of " + sha +
                                     " is damaged; see db check, add the model again"};
  }
  return ModelBlobs{row.text("tokenizer"), row.text("pieces")};
}

}  // namespace holdfast::store
