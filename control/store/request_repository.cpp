#include "control/store/request_repository.h"

#include "control/store/encode.h"

namespace holdfast::store {
namespace {

std::int64_t i64(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

}  // namespace

Result<void> RequestRepository::prepare() {
  HOLDFAST_CHECKED(prepare_writes());
  return prepare_reads();
}

Result<void> RequestRepository::prepare_writes() {
  sqlite3* db = connection_.get();
  HOLDFAST_CHECKED(insert_request_.prepare(db, "requests"));
  HOLDFAST_CHECKED(insert_payload_.prepare(db, "payloads"));
  HOLDFAST_CHECKED(insert_choice_.prepare(db, "choices"));
  HOLDFAST_CHECKED(begin_attempt_.prepare(db, "attempts"));
  HOLDFAST_CHECKED(update_request_.prepare(db, "requests"));
  HOLDFAST_CHECKED(update_choice_.prepare(db, "choices"));
  HOLDFAST_CHECKED(end_attempt_.prepare(db, "attempts"));
  HOLDFAST_TRY(delete_payload_, Statement::prepare(db, "DELETE FROM payloads WHERE seq=?"));
  HOLDFAST_TRY(delete_choices_, Statement::prepare(db, "DELETE FROM choices WHERE seq=?"));
  HOLDFAST_TRY(delete_attempts_, Statement::prepare(db, "DELETE FROM attempts WHERE seq=?"));
  HOLDFAST_TRY(delete_request_, Statement::prepare(db, "DELETE FROM requests WHERE seq=?"));
  return {};
}

Result<void> RequestRepository::prepare_reads() {
  sqlite3* db = connection_.get();
  HOLDFAST_CHECKED(by_id_.prepare(db, "requests", "WHERE id=?"));
  HOLDFAST_CHECKED(by_key_.prepare(db, "requests", "WHERE tenant=? AND idem_key=?"));
  // The first condition is that of the index.
  HOLDFAST_CHECKED(
      queued_.prepare(db, "requests",
                      "WHERE state IN ('queued', 'running', 'quarantined') AND"
                      " state='queued' AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"));
  HOLDFAST_CHECKED(payload_.prepare(db, "payloads", "WHERE seq=?"));
  HOLDFAST_CHECKED(choices_.prepare(db, "choices", "WHERE seq=? ORDER BY choice"));
  HOLDFAST_CHECKED(open_attempts_.prepare(db, "attempts",
                                          "WHERE seq=? AND ended_ms IS NULL ORDER BY"
                                          " choice, fence_epoch, fence_counter"));
  // A damaged request is not deleted for what its time says.
  return oldest_.prepare(db, "SELECT seq, CASE WHEN " + sound_row("requests") +
                                 " THEN finished_ms ELSE 0 END AS finished_ms FROM requests"
                                 " WHERE seq>=? ORDER BY seq LIMIT ?");
}

Result<void> RequestRepository::write(const core::InsertRequest& c) {
  const core::RequestRow& r = c.row;
  {
    auto values = insert_request_.values();
    values.set("seq", r.seq).set("id", r.id).set("tenant", r.tenant);
    values.set_or_null("idem_key", r.idem_key).set("body_hash", r.body_hash);
    values.set("model", r.model).set("model_sha", r.model_sha);
    values.set("state", wire::state_name(r.state));
    values.set("priority", static_cast<std::int64_t>(r.priority)).set("class", r.numerics_class);
    values.set("config_version", r.config_version).set("n", r.n).set("max_tokens", r.max_tokens);
    values.set("on_disconnect", static_cast<std::int64_t>(r.on_disconnect));
    values.set("created_ms", r.created_ms).set("started_ms", r.started_ms);
    values.set("finished_ms", r.finished_ms).set("queue_deadline_ms", r.queue_deadline_ms);
    values.set("total_deadline_ms", r.total_deadline_ms);
    values.set("error_code", r.error_code).set("error", r.error).set("alias", r.alias);
    values.set("route_key", i64(r.route_key)).set("canary", r.canary);
    values.set("rerouted_from", r.rerouted_from).set("api_key", r.api_key);
    HOLDFAST_CHECKED(values.run());
    sums_.insert_request(r.seq, values.staying());
  }
  HOLDFAST_CHECKED(insert_payload(r.seq, c.payload));
  for (const core::ChoiceRow& choice : c.choices) {
    const auto prompt = static_cast<std::size_t>(choice.prompt);
    auto values = insert_choice_.values();
    values.set("seq", r.seq).set("choice", choice.choice).set("prompt", choice.prompt);
    values.set("prompt_tokens", i64(c.payload.prompt_ids[prompt].size()));
    values.set("next_index", choice.next_index).set("finish", wire::finish_name(choice.finish));
    HOLDFAST_CHECKED(values.run());
    sums_.insert_choice(r.seq, choice.choice, values.staying());
  }
  return {};
}

Result<void> RequestRepository::insert_payload(core::Seq seq, const core::PayloadRow& payload) {
  const std::string params = encode_params(payload);
  const std::string prompts = encode_prompts(payload.prompt_ids);
  const std::string text =
      payload.prompt_text.empty() ? std::string() : encode_strings(payload.prompt_text);
  auto values = insert_payload_.values();
  values.set("seq", seq).set("params", params).set("meta", payload.meta);
  values.set_or_null("prompt_text", text).set("crc", std::int64_t{crc32c(prompts)});
  return values.set_blob("prompts", prompts).run();
}

Result<void> RequestRepository::write(const core::UpdateRequest& c) {
  auto values = update_request_.values(sums_.request(c.seq));
  if (wire::is_terminal(c.state)) sums_.forget(c.seq);
  values.set("state", wire::state_name(c.state));
  values.set("priority", static_cast<std::int64_t>(c.priority)).set("class", c.numerics_class);
  values.set("started_ms", c.started_ms).set("finished_ms", c.finished_ms);
  return values.set("error_code", c.error_code).set("error", c.error).key("seq", c.seq).run();
}

Result<void> RequestRepository::write(const core::UpdateChoice& c) {
  auto values = update_choice_.values(sums_.choice(c.seq, c.row.choice));
  values.set("next_index", c.row.next_index).set("finish", wire::finish_name(c.row.finish));
  values.set("error_code", c.row.error_code).set("error", c.row.error);
  values.set("deaths", c.row.deaths).set("deaths_index", c.row.deaths_index);
  return values.key("seq", c.seq).key("choice", c.row.choice).run();
}

Result<void> RequestRepository::write(const core::BeginAttempt& c) {
  auto values = begin_attempt_.values();
  values.set("seq", c.seq).set("choice", c.choice);
  values.set("fence_epoch", i64(c.fence.epoch)).set("fence_counter", i64(c.fence.counter));
  values.set("worker_key", c.worker_key).set("incarnation", c.incarnation);
  values.set("load_id", c.load_id).set("start_index", c.start_index).set("adopted", c.adopted);
  HOLDFAST_CHECKED(values.set("started_ms", c.started_ms).run());
  sums_.begin_attempt(c.seq, c.choice, c.fence, values.staying());
  return {};
}

Result<void> RequestRepository::write(const core::EndAttempt& c) {
  auto values = end_attempt_.values(sums_.attempt(c.seq, c.choice, c.fence));
  values.set("ended_ms", c.ended_ms).set("end_index", c.end_index).set("reason", c.reason);
  values.key("seq", c.seq).key("choice", c.choice);
  values.key("fence_epoch", i64(c.fence.epoch)).key("fence_counter", i64(c.fence.counter));
  return values.run();
}

Result<void> RequestRepository::write(const core::RerouteRequest& c) {
  static constexpr Columns kRerouted{"model", "model_sha", "canary", "rerouted_from"};
  sums_.forget(c.seq);  // it changes columns that no other UPDATE does
  Update<kRerouted, kRequestKey> update;
  HOLDFAST_CHECKED(update.prepare(connection_.get(), "requests"));
  auto values = update.values();
  values.set("model", c.model).set("model_sha", c.model_sha).set("canary", 0);
  return values.set("rerouted_from", c.rerouted_from).key("seq", c.seq).run();
}

Result<void> RequestRepository::write(const core::DeleteRequest& c) {
  sums_.forget(c.seq);
  HOLDFAST_CHECKED(tokens_.delete_tail(c.seq));
  HOLDFAST_CHECKED(delete_payload_.use().bind(c.seq).run());
  HOLDFAST_CHECKED(delete_choices_.use().bind(c.seq).run());
  HOLDFAST_CHECKED(tokens_.delete_settled(c.seq));
  HOLDFAST_CHECKED(delete_attempts_.use().bind(c.seq).run());
  return delete_request_.use().bind(c.seq).run();
}

}  // namespace holdfast::store
