// Writes row changes of the machine with prepared statements.
#include "control/store/encode.h"
#include "control/store/row_checksum.h"
#include "control/store/sqlite_store.h"

namespace holdfast::store {
namespace {

using core::model_state_name;

constexpr const char* kModelColumns =
    "name, sha, path, size, mtime_ns, architecture, context, slots, pages, prefill_chunk, kv_type,"
    " vocab, chat, weights_bytes, kv_bytes, scratch_bytes, options, shape, wanted, state, reason,"
    " created_ms, last_used_ms, tokenizer_sha, output";
constexpr const char* kLoadColumns =
    "load_id, model, model_sha, worker_key, incarnation, state, class, slots, pages, page_tokens,"
    " context, reason, created_ms, ready_ms, ended_ms";
constexpr const char* kLoadUpsert =
    " ON CONFLICT(load_id) DO UPDATE SET incarnation=excluded.incarnation, state=excluded.state,"
    " class=excluded.class, slots=excluded.slots, pages=excluded.pages,"
    " page_tokens=excluded.page_tokens, context=excluded.context, reason=excluded.reason,"
    " ready_ms=excluded.ready_ms, ended_ms=excluded.ended_ms, checksum=excluded.checksum";
constexpr const char* kRequestColumns =
    "seq, id, tenant, idem_key, body_hash, model, model_sha, state, priority, class,"
    " config_version, n, max_tokens, on_disconnect, created_ms, started_ms, finished_ms,"
    " queue_deadline_ms, total_deadline_ms, error_code, error, alias, route_key, canary,"
    " rerouted_from, api_key";
constexpr const char* kObjectColumns =
    "seq, kind, id, owner, version, created_ms, changed_ms, expires_ms, bytes, crc";
constexpr const char* kRequestChanging =
    "state, priority, class, started_ms, finished_ms, error_code, error";
constexpr const char* kChoiceChanging =
    "next_index, finish, error_code, error, deaths, deaths_index";
constexpr const char* kAttemptChanging = "ended_ms, end_index, reason";
constexpr const char* kObjectUpsert =
    " ON CONFLICT(seq) DO UPDATE SET version=excluded.version, changed_ms=excluded.changed_ms,"
    " expires_ms=excluded.expires_ms, body=excluded.body, bytes=excluded.bytes, crc=excluded.crc,"
    " checksum=excluded.checksum";
constexpr const char* kReplace = "INSERT OR REPLACE";

Result<void> insert_row(Statement& into, Tail::Key key, const ChunkRow& row) {
  auto use = into.use();
  use.bind(key.first).bind(std::int64_t{key.second}).bind(row.start).bind_blob(row.ids);
  if (row.extra) {
    use.bind(*row.extra);
  } else {
    use.bind_null();
  }
  return use.bind(std::int64_t{row.crc}).run();
}

std::int64_t i64(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

}  // namespace

Result<void> SqliteStore::prepare_all(std::initializer_list<Prepared> list) {
  for (const Prepared& one : list) {
    HOLDFAST_TRY(*one.statement, Statement::prepare(db_.get(), one.sql));
  }
  return {};
}

/// Prepares rows of many groups, whose checksums SQL computes.
Result<void> SqliteStore::prepare_checked() {
  const auto prepare = [this](Statement& into, const std::string& sql) -> Result<void> {
    HOLDFAST_TRY(into, Statement::prepare(db_.get(), sql.c_str()));
    return {};
  };
  HOLDFAST_CHECKED(prepare(put_model_, checked_insert("models", kModelColumns, kReplace)));
  HOLDFAST_CHECKED(
      prepare(put_blobs_, checked_insert("model_blobs", "sha, tokenizer, pieces", kReplace)));
  HOLDFAST_CHECKED(
      prepare(put_load_, checked_insert("loads", kLoadColumns, "INSERT", kLoadUpsert)));
  HOLDFAST_CHECKED(prepare(put_reservation_,
                           checked_insert("reservations", "load_id, worker_key, bytes", kReplace)));
  HOLDFAST_CHECKED(
      prepare(insert_transition_, checked_insert("transitions",
                                                 "subject, key, from_state, to_state, at_ms,"
                                                 " memory_before, memory_after, reason")));
  HOLDFAST_CHECKED(prepare(insert_config_,
                           checked_insert("config_versions", "version, at_ms, source, content")));
  return prepare(put_flag_, checked_insert("flags", "name, value", kReplace));
}

/// Prepares rows that groups write all the time, summed in the process.
Result<void> SqliteStore::prepare_summed() {
  sqlite3* db = db_.get();
  HOLDFAST_TRY(insert_request_,
               SummedStatement::insert(db, "requests", kRequestColumns, kRequestChanging));
  HOLDFAST_TRY(
      insert_payload_,
      SummedStatement::insert(db, "payloads", "seq, params, meta, prompt_text, crc, prompts"));
  HOLDFAST_TRY(insert_choice_,
               SummedStatement::insert(db, "choices",
                                       "seq, choice, prompt, prompt_tokens, next_index, finish",
                                       kChoiceChanging));
  HOLDFAST_TRY(begin_attempt_,
               SummedStatement::insert(db, "attempts",
                                       "seq, choice, fence_epoch, fence_counter, worker_key,"
                                       " incarnation, load_id, start_index, adopted, started_ms",
                                       kAttemptChanging));
  HOLDFAST_TRY(put_object_,
               SummedStatement::insert(db, "objects", std::string(kObjectColumns) + ", body", "",
                                       kObjectUpsert));
  HOLDFAST_TRY(update_request_,
               SummedUpdate::prepare(db, "requests", kRequestChanging, "WHERE seq=?"));
  HOLDFAST_TRY(update_choice_,
               SummedUpdate::prepare(db, "choices", kChoiceChanging, "WHERE seq=? AND choice=?"));
  HOLDFAST_TRY(end_attempt_, SummedUpdate::prepare(
                                 db, "attempts", kAttemptChanging,
                                 "WHERE seq=? AND choice=? AND fence_epoch=? AND fence_counter=?"));
  HOLDFAST_TRY(count_synced_, SummedUpdate::prepare(db, "log_mark", "synced", "WHERE id=1"));
  return {};
}

Result<void> SqliteStore::prepare_writes() {
  HOLDFAST_CHECKED(prepare_checked());
  HOLDFAST_CHECKED(prepare_summed());
  return prepare_all({
      {&append_object_, "INSERT INTO object_parts(seq, at, data, crc) VALUES (?,?,?,?)"},
      {&begin_, "BEGIN IMMEDIATE"},
      {&commit_, "COMMIT"},
      {&begin_reads_, "BEGIN DEFERRED"},
      {&insert_settled_,
       "INSERT INTO settled(seq, choice, start, ids, extra, crc) VALUES (?,?,?,?,?,?)"},
      {&insert_tail_, "INSERT INTO tail(seq, choice, start, ids, extra, crc) VALUES (?,?,?,?,?,?)"},
      {&empty_tail_, "DELETE FROM tail"},
      {&delete_tail_, "DELETE FROM tail WHERE seq=?"},
      {&delete_model_, "DELETE FROM models WHERE name=?"},
      {&delete_reservation_, "DELETE FROM reservations WHERE load_id=?"},
      {&delete_payload_, "DELETE FROM payloads WHERE seq=?"},
      {&delete_choices_, "DELETE FROM choices WHERE seq=?"},
      {&delete_settled_, "DELETE FROM settled WHERE seq=?"},
      {&delete_attempts_, "DELETE FROM attempts WHERE seq=?"},
      {&delete_request_, "DELETE FROM requests WHERE seq=?"},
  });
}

/// Prepares reads with the check of the row: `sound` is 0 for a damaged row.
Result<void> SqliteStore::prepare_sound_reads() {
  const auto prepare = [this](Statement& into, const std::string& sql) -> Result<void> {
    HOLDFAST_TRY(into, Statement::prepare(db_.get(), sql.c_str()));
    return {};
  };
  const std::string requests = "SELECT *, " + sound_row("requests") + " AS sound FROM requests ";
  HOLDFAST_CHECKED(prepare(by_id_, requests + "WHERE id=?"));
  HOLDFAST_CHECKED(prepare(by_key_, requests + "WHERE tenant=? AND idem_key=?"));
  // The first condition is that of the index.
  HOLDFAST_CHECKED(
      prepare(queued_, requests + "WHERE state IN ('queued', 'running', 'quarantined') AND"
                                  " state='queued' AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"));
  HOLDFAST_CHECKED(
      prepare(find_object_,
              "SELECT seq, kind, id, owner, version, created_ms, changed_ms, expires_ms,"
              " body, bytes, crc, " +
                  sound_row("objects") + " FROM objects WHERE kind=? AND id=?"));
  HOLDFAST_CHECKED(prepare(payload_, "SELECT params, meta, prompts, prompt_text, crc, " +
                                         sound_row("payloads") + " FROM payloads WHERE seq=?"));
  HOLDFAST_CHECKED(prepare(choices_,
                           "SELECT choice, prompt, next_index, finish, error_code, error,"
                           " deaths, deaths_index, prompt_tokens, " +
                               sound_row("choices") + " FROM choices WHERE seq=? ORDER BY choice"));
  // A damaged request is not deleted for what its time says.
  HOLDFAST_CHECKED(prepare(oldest_, "SELECT seq, CASE WHEN " + sound_row("requests") +
                                        " THEN finished_ms ELSE 0 END FROM requests WHERE seq>=?"
                                        " ORDER BY seq LIMIT ?"));
  HOLDFAST_CHECKED(prepare(blobs_, "SELECT tokenizer, pieces, " + sound_row("model_blobs") +
                                       " FROM model_blobs WHERE sha=?"));
  return prepare(open_attempts_,
                 "SELECT choice, fence_epoch, fence_counter, worker_key,"
                 " incarnation, load_id, " +
                     sound_row("attempts") +
                     " FROM attempts WHERE seq=? AND ended_ms IS NULL ORDER BY"
                     " choice, fence_epoch, fence_counter");
}

Result<void> SqliteStore::prepare_reads() {
  HOLDFAST_CHECKED(prepare_sound_reads());
  return prepare_all({
      {&settled_,
       "SELECT start, ids, extra, crc FROM settled WHERE seq=?1 AND choice=?2 AND start < ?4 AND"
       " start >= coalesce((SELECT max(start) FROM settled WHERE seq=?1 AND choice=?2 AND"
       " start <= ?3), 0) ORDER BY start"},
  });
}

Result<void> SqliteStore::prepare() {
  HOLDFAST_CHECKED(prepare_writes());
  return prepare_reads();
}

Result<void> SqliteStore::write(const core::InsertRequest& c) {
  const core::RequestRow& r = c.row;
  {
    auto use = insert_request_.use();
    use.bind(r.seq).bind(r.id).bind(r.tenant);
    if (r.idem_key.empty()) {
      use.bind_null();
    } else {
      use.bind(r.idem_key);
    }
    use.bind(r.body_hash).bind(r.model).bind(r.model_sha).bind(wire::state_name(r.state));
    use.bind(static_cast<std::int64_t>(r.priority)).bind(r.numerics_class).bind(r.config_version);
    use.bind(std::int64_t{r.n}).bind(r.max_tokens).bind(static_cast<std::int64_t>(r.on_disconnect));
    use.bind(r.created_ms).bind(r.started_ms).bind(r.finished_ms);
    use.bind(r.queue_deadline_ms).bind(r.total_deadline_ms).bind(r.error_code).bind(r.error);
    use.bind(r.alias).bind(i64(r.route_key)).bind(r.canary).bind(r.rerouted_from);
    use.bind(r.api_key);
    HOLDFAST_CHECKED(use.run());
    sums_.insert_request(r.seq, use.staying());
  }
  const std::string params = encode_params(c.payload);
  const std::string prompts = encode_prompts(c.payload.prompt_ids);
  const std::string text =
      c.payload.prompt_text.empty() ? std::string() : encode_strings(c.payload.prompt_text);
  {
    auto use = insert_payload_.use();
    use.bind(r.seq).bind(params).bind(c.payload.meta);
    if (c.payload.prompt_text.empty()) {
      use.bind_null();
    } else {
      use.bind(text);
    }
    HOLDFAST_CHECKED(use.bind(std::int64_t{crc32c(prompts)}).bind_blob(prompts).run());
  }
  for (const core::ChoiceRow& choice : c.choices) {
    const auto prompt = static_cast<std::size_t>(choice.prompt);
    auto use = insert_choice_.use();
    use.bind(r.seq).bind(std::int64_t{choice.choice}).bind(std::int64_t{choice.prompt});
    use.bind(static_cast<std::int64_t>(c.payload.prompt_ids[prompt].size()));
    HOLDFAST_CHECKED(use.bind(choice.next_index).bind(wire::finish_name(choice.finish)).run());
    sums_.insert_choice(r.seq, choice.choice, use.staying());
  }
  return {};
}

Result<void> SqliteStore::write(const core::UpdateRequest& c) {
  auto use = update_request_.use(sums_.request(c.seq));
  if (wire::is_terminal(c.state)) sums_.forget(c.seq);
  use.bind(wire::state_name(c.state)).bind(static_cast<std::int64_t>(c.priority));
  use.bind(c.numerics_class).bind(c.started_ms).bind(c.finished_ms);
  return use.bind(c.error_code).bind(c.error).bind(c.seq).run();
}

Result<void> SqliteStore::write(const core::UpdateChoice& c) {
  auto use = update_choice_.use(sums_.choice(c.seq, c.row.choice));
  use.bind(c.row.next_index).bind(wire::finish_name(c.row.finish)).bind(c.row.error_code);
  use.bind(c.row.error).bind(std::int64_t{c.row.deaths}).bind(c.row.deaths_index);
  return use.bind(c.seq).bind(std::int64_t{c.row.choice}).run();
}

Result<void> SqliteStore::write(const core::InsertChunk& c) {
  ChunkRow row = encode_chunk(c);
  HOLDFAST_CHECKED(insert_row(insert_tail_, {c.seq, c.choice}, row));
  tail_.add({c.seq, c.choice}, std::move(row));
  return {};
}

/// Moves the tail's rows to their requests, inside the transaction of a group, before its own rows.
Result<void> SqliteStore::settle_tail() {
  for (const auto& [key, rows] : tail_.streams()) {
    for (const ChunkRow& row : merge_chunks(rows)) {
      HOLDFAST_CHECKED(insert_row(insert_settled_, key, row));
    }
  }
  HOLDFAST_CHECKED(empty_tail_.use().run());
  tail_.clear();
  return {};
}

Result<void> SqliteStore::write(const core::BeginAttempt& c) {
  auto use = begin_attempt_.use();
  use.bind(c.seq).bind(std::int64_t{c.choice}).bind(i64(c.fence.epoch)).bind(i64(c.fence.counter));
  use.bind(c.worker_key).bind(c.incarnation).bind(c.load_id).bind(c.start_index);
  HOLDFAST_CHECKED(use.bind(std::int64_t{c.adopted}).bind(c.started_ms).run());
  sums_.begin_attempt(c.seq, c.choice, c.fence, use.staying());
  return {};
}

Result<void> SqliteStore::write(const core::EndAttempt& c) {
  auto use = end_attempt_.use(sums_.attempt(c.seq, c.choice, c.fence));
  use.bind(c.ended_ms).bind(c.end_index).bind(c.reason).bind(c.seq).bind(std::int64_t{c.choice});
  return use.bind(i64(c.fence.epoch)).bind(i64(c.fence.counter)).run();
}

Result<void> SqliteStore::write(const core::PutModel& c) {
  const core::ModelRow& r = c.row;
  auto use = put_model_.use();
  use.bind(r.name).bind(r.sha).bind(r.path).bind(r.size).bind(r.mtime_ns).bind(r.architecture);
  use.bind(r.context).bind(std::int64_t{r.slots}).bind(std::int64_t{r.pages}).bind(r.prefill_chunk);
  use.bind(r.kv_type).bind(std::int64_t{r.vocab}).bind(std::int64_t{r.chat}).bind(r.weights_bytes);
  use.bind(r.kv_bytes).bind(r.scratch_bytes).bind(r.options).bind(r.shape);
  use.bind(std::int64_t{r.load_requested}).bind(model_state_name(r.state)).bind(r.reason);
  return use.bind(r.created_ms).bind(r.last_used_ms).bind(r.tokenizer_sha).bind(r.output).run();
}

Result<void> SqliteStore::write(const core::PutModelBlobs& c) {
  return put_blobs_.use().bind(c.sha).bind_blob(c.tokenizer).bind_blob(c.detokenizer).run();
}

Result<void> SqliteStore::write(const core::DeleteModel& c) {
  return delete_model_.use().bind(c.name).run();
}

Result<void> SqliteStore::write(const core::PutLoad& c) {
  const core::LoadRow& r = c.row;
  {
    auto use = put_load_.use();
    use.bind(r.load_id).bind(r.model).bind(r.model_sha).bind(r.worker_key).bind(r.incarnation);
    use.bind(model_state_name(r.state)).bind(r.numerics_class).bind(std::int64_t{r.slots});
    use.bind(std::int64_t{r.pages})
        .bind(std::int64_t{r.page_tokens})
        .bind(r.context)
        .bind(r.reason);
    HOLDFAST_CHECKED(use.bind(r.created_ms).bind(r.ready_ms).bind(r.ended_ms).run());
  }
  if (r.bytes > 0)
    return put_reservation_.use().bind(r.load_id).bind(r.worker_key).bind(r.bytes).run();
  return delete_reservation_.use().bind(r.load_id).run();
}

Result<void> SqliteStore::write(const core::InsertTransition& c) {
  auto use = insert_transition_.use();
  use.bind(c.subject).bind(c.key).bind(c.from).bind(c.to).bind(c.at_ms);
  return use.bind(c.memory_before).bind(c.memory_after).bind(c.reason).run();
}

Result<void> SqliteStore::write(const core::PutFlag& c) {
  return put_flag_.use().bind(c.name).bind(c.value).run();
}

Result<void> SqliteStore::write(const core::InsertConfigVersion& c) {
  const std::string content = encode_config(c.version);
  auto use = insert_config_.use();
  use.bind(c.version.version).bind(c.version.at_ms).bind(c.version.source).bind(content);
  return use.run();
}

Result<void> SqliteStore::write(const core::DeleteRequest& c) {
  sums_.forget(c.seq);
  if (tail_.has(c.seq)) {
    HOLDFAST_CHECKED(delete_tail_.use().bind(c.seq).run());
    tail_.erase(c.seq);
  }
  for (Statement* statement : {&delete_payload_, &delete_choices_, &delete_settled_,
                               &delete_attempts_, &delete_request_}) {
    HOLDFAST_CHECKED(statement->use().bind(c.seq).run());
  }
  return {};
}

}  // namespace holdfast::store
