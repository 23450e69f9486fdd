// Reads of the store: all that a start needs, and single requests afterwards.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "control/store/encode.h"
#include "control/store/row_checksum.h"
#include "control/store/sqlite_store.h"

namespace holdfast::store {
namespace {

using core::BootChoice;
using core::BootRequest;

/// Returns nullopt for a damaged name: the table's CHECK admits no other.
std::optional<core::RequestState> state_from(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(core::RequestState::kQuarantined); ++i) {
    const auto state = static_cast<core::RequestState>(i);
    if (wire::state_name(state) == name) return state;
  }
  return std::nullopt;
}

core::FinishReason finish_from(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(core::FinishReason::kExpired); ++i) {
    const auto finish = static_cast<core::FinishReason>(i);
    if (wire::finish_name(finish) == name) return finish;
  }
  return core::FinishReason::kError;
}

/// A row of requests, which may be damaged.
struct ReadRequest {
  core::RequestRow row;
  std::string damaged;  // empty: it is sound
};

/// Reads the columns of `SELECT *, sound FROM requests`, in the order of schema/001, 003 and 006. A
/// damaged request that has ended counts as failed, so that it hides no other from a list.
ReadRequest request_row(const Statement::Use& use) {
  core::RequestRow r;
  int c = 0;
  r.seq = use.integer(c++);
  r.id = use.text(c++);
  r.tenant = use.text(c++);
  r.idem_key = use.text(c++);
  r.body_hash = use.text(c++);
  r.model = use.text(c++);
  r.model_sha = use.text(c++);
  const std::optional<core::RequestState> state = state_from(use.bytes(c++));
  r.state = state.value_or(core::RequestState::kFailed);
  r.priority = static_cast<core::PriorityClass>(std::clamp<std::int64_t>(use.integer(c++), 0, 2));
  r.numerics_class = use.text(c++);
  r.config_version = use.integer(c++);
  r.n = static_cast<std::int32_t>(use.integer(c++));
  r.max_tokens = use.integer(c++);
  r.on_disconnect =
      use.integer(c++) == 0 ? wire::OnDisconnect::kContinue : wire::OnDisconnect::kCancel;
  r.created_ms = use.integer(c++);
  r.started_ms = use.integer(c++);
  r.finished_ms = use.integer(c++);
  r.queue_deadline_ms = use.integer(c++);
  r.total_deadline_ms = use.integer(c++);
  r.error_code = use.text(c++);
  r.error = use.text(c++);
  r.alias = use.text(c++);
  r.route_key = static_cast<std::uint64_t>(use.integer(c++));
  r.canary = use.integer(c++);
  r.rerouted_from = use.text(c++);
  r.api_key = use.text(c++);
  if (state && use.integer(use.columns() - 1) != 0) return {std::move(r), {}};
  std::string damaged = (state ? "request row " : "the state in request row ") +
                        std::to_string(r.seq) + " is damaged";
  if (wire::is_terminal(r.state)) {
    r.state = core::RequestState::kFailed;
    r.error_code = errc_name(Errc::kCorrupt);
    r.error = damaged;
  }
  return {std::move(r), std::move(damaged)};
}

/// Reads start, ids, extra and crc from `column` on.
ChunkRow chunk_row(const Statement::Use& use, int column) {
  ChunkRow row;
  row.start = use.integer(column);
  row.ids = use.text(column + 1);
  if (!use.is_null(column + 2)) row.extra = use.text(column + 2);
  row.crc = static_cast<std::uint32_t>(use.integer(column + 3));
  return row;
}

Error damaged(const char* what, core::Seq seq) {
  return Error{Errc::kCorrupt, std::string("read ") + what + " of request row " +
                                   std::to_string(seq) + ": its checksum or size is wrong"};
}

/// The error for rows that decide a start: they must be as they were written.
Error damaged_row(const std::string& table, const std::string& key) {
  return Error{Errc::kCorrupt, table + ": row " + key +
                                   " is damaged: its checksum differs; see db check, restore a"
                                   " backup"};
}

}  // namespace

Result<core::Boot> SqliteStore::load(std::int64_t queued_max, std::int64_t keys_since_ms) {
  core::Boot boot;
  HOLDFAST_TRY(const std::string seq,
               query_text(db_.get(), "SELECT coalesce(max(seq), 0) FROM requests"));
  HOLDFAST_TRY(
      const std::string bad_flag,
      // Golden answers are compared, not trusted.
      query_text(db_.get(), "SELECT name FROM flags WHERE name NOT LIKE 'golden/%' AND NOT " +
                                sound_row("flags")));
  if (!bad_flag.empty()) return damaged_row("flags", bad_flag);
  HOLDFAST_TRY(const std::string paused,
               query_text(db_.get(), "SELECT value FROM flags WHERE name='queue.paused'"));
  HOLDFAST_TRY(const std::string queued,
               query_text(db_.get(),
                          "SELECT count(*) FROM requests WHERE state IN ('queued', 'running',"
                          " 'quarantined') AND state='queued'"));
  boot.last_seq = last_seq_ = std::stoll(seq);
  HOLDFAST_TRY(boot.config_versions, config_versions());
  boot.queue_paused = paused == "1";
  HOLDFAST_TRY(const std::string clock,
               query_text(db_.get(), "SELECT value FROM flags WHERE name='clock.offset'"));
  boot.boot_id = disk_.boot_id();
  const std::size_t space = clock.find(' ');
  if (space != std::string::npos) {
    boot.clock_boot_id = clock.substr(0, space);
    boot.clock_offset_ms = std::strtoll(clock.c_str() + space, nullptr, 10);
  }
  HOLDFAST_TRY(const auto drained, flags_below("drain/"));
  for (const auto& [key, value] : drained) boot.drained_workers.push_back(key);
  HOLDFAST_TRY(boot.quarantined_workers, flags_below("quarantine/"));
  HOLDFAST_TRY(boot.goldens, flags_below("golden/"));
  HOLDFAST_TRY(boot.identities, flags_below("identity/"));
  HOLDFAST_TRY(boot.load_failures, flags_below("load_failures/"));
  HOLDFAST_TRY(const auto pinned, flags_below("pin/"));
  for (const auto& [name, value] : pinned) boot.pinned_models.push_back(name);
  HOLDFAST_TRY(boot.models, load_models());
  HOLDFAST_TRY(boot.loads, load_loads());
  HOLDFAST_TRY(boot.aliases, load_aliases());
  HOLDFAST_TRY(boot.canaries, load_canaries());
  HOLDFAST_TRY(boot.keys, load_keys(keys_since_ms));
  HOLDFAST_TRY(Statement started,
               Statement::prepare(db_.get(), ("SELECT *, " + sound_row("requests") +
                                              " FROM requests WHERE state IN ('queued', 'running',"
                                              " 'quarantined') AND state<>'queued' ORDER BY seq")
                                                 .c_str()));
  {
    auto rows = started.use();
    HOLDFAST_CHECKED(load_where(rows, boot.requests));
  }
  read_upto_ = 0;
  HOLDFAST_TRY(core::BootQueuePage first, load_queue_page(queued_max));
  boot.unread = std::stoll(queued) - static_cast<std::int64_t>(first.requests.size());
  boot.requests.insert(boot.requests.end(), std::make_move_iterator(first.requests.begin()),
                       std::make_move_iterator(first.requests.end()));
  std::sort(boot.requests.begin(), boot.requests.end(),
            [](const auto& a, const auto& b) { return a.row.seq < b.row.seq; });
  return boot;
}

/// The live requests of each API key, and the times since `since_ms` at which some were accepted.
Result<std::vector<core::KeyUse>> SqliteStore::load_keys(std::int64_t since_ms) {
  std::map<std::string, core::KeyUse> uses;
  HOLDFAST_TRY(Statement live,
               Statement::prepare(db_.get(),
                                  "SELECT api_key, count(*) FROM requests WHERE state IN ('queued',"
                                  " 'running', 'quarantined') AND api_key <> '' GROUP BY api_key"));
  for (auto use = live.use();;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) break;
    uses[use.text(0)].live = use.integer(1);
  }
  // From the newest row back to the first that is too old.
  HOLDFAST_TRY(
      Statement newest,
      Statement::prepare(db_.get(), "SELECT created_ms, api_key FROM requests ORDER BY seq DESC"));
  for (auto use = newest.use();;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more || use.integer(0) < since_ms) break;
    if (std::string key = use.text(1); !key.empty()) {
      uses[std::move(key)].created_ms.push_back(use.integer(0));
    }
  }
  std::vector<core::KeyUse> list;
  for (auto& [key, use] : uses) {
    use.key = key;
    list.push_back(std::move(use));
  }
  return list;
}

/// The values of flags "PREFIX/KEY" that are set, by KEY.
Result<std::map<std::string, std::string>> SqliteStore::flags_below(const std::string& prefix) {
  HOLDFAST_TRY(
      Statement select,
      Statement::prepare(db_.get(),
                         "SELECT substr(name, length(?1) + 1), value FROM flags"
                         " WHERE substr(name, 1, length(?1)) = ?1 AND value NOT IN ('', '0')"));
  std::map<std::string, std::string> found;
  auto use = select.use();
  use.bind(prefix);
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return found;
    found.emplace(use.text(0), use.text(1));
  }
}

Result<core::BootQueuePage> SqliteStore::load_queue_page(std::int64_t limit) {
  core::BootQueuePage more;
  HOLDFAST_CHECKED(begin_reads());
  auto rows = queued_.use();
  rows.bind(read_upto_).bind(last_seq_).bind(limit);
  HOLDFAST_CHECKED(load_where(rows, more.requests));
  more.last = static_cast<std::int64_t>(more.requests.size()) < limit;
  if (!more.requests.empty()) read_upto_ = more.requests.back().row.seq;
  return more;
}

Result<std::vector<core::ConfigVersion>> SqliteStore::config_versions() {
  HOLDFAST_TRY(Statement select,
               Statement::prepare(db_.get(), ("SELECT version, at_ms, source, content, " +
                                              sound_row("config_versions") +
                                              " FROM config_versions ORDER BY version DESC LIMIT ?")
                                                 .c_str()));
  std::vector<core::ConfigVersion> versions;
  auto use = select.use();
  use.bind(static_cast<std::int64_t>(core::kConfigVersionsMax));
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) break;
    if (use.integer(4) == 0) return damaged_row("config_versions", use.text(0));
    HOLDFAST_TRY(core::ConfigVersion version, decode_config(use.bytes(3)));
    version.version = use.integer(0);
    version.at_ms = use.integer(1);
    version.source = use.text(2);
    versions.push_back(std::move(version));
  }
  std::reverse(versions.begin(), versions.end());
  return versions;
}

Result<std::vector<core::ModelRow>> SqliteStore::load_models() {
  HOLDFAST_TRY(
      Statement select,
      Statement::prepare(
          db_.get(), ("SELECT *, " + sound_row("models") + " FROM models ORDER BY name").c_str()));
  std::vector<core::ModelRow> rows;
  auto use = select.use();
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return rows;
    core::ModelRow r;
    int c = 0;
    const auto i32 = [&] { return static_cast<std::int32_t>(use.integer(c++)); };
    r.name = use.text(c++);
    r.sha = use.text(c++);
    r.path = use.text(c++);
    r.size = use.integer(c++);
    r.mtime_ns = use.integer(c++);
    r.architecture = use.text(c++);
    r.context = use.integer(c++);
    r.slots = i32();
    r.pages = i32();
    r.prefill_chunk = use.integer(c++);
    r.kv_type = use.text(c++);
    r.vocab = i32();
    r.chat = use.integer(c++) != 0;
    r.weights_bytes = use.integer(c++);
    r.kv_bytes = use.integer(c++);
    r.scratch_bytes = use.integer(c++);
    r.options = use.text(c++);
    r.shape = use.text(c++);
    r.load_requested = use.integer(c++) != 0;
    r.state = core::model_state_from_name(use.bytes(c++));
    r.reason = use.text(c++);
    r.created_ms = use.integer(c++);
    r.last_used_ms = use.integer(c++);
    r.tokenizer_sha = use.text(c++);
    r.output = use.text(c++);
    if (use.integer(use.columns() - 1) == 0) {
      // One model fails, not the service.
      r.state = core::ModelState::kFailed;
      r.load_requested = false;
      r.path = "(damaged)";  // so that no load trusts the rest of the row
      r.reason = "its row in the database is damaged (see db check); add the model again";
    }
    rows.push_back(std::move(r));
  }
}

Result<std::vector<core::LoadRow>> SqliteStore::load_loads() {
  HOLDFAST_TRY(
      Statement select,
      Statement::prepare(
          db_.get(),
          ("SELECT l.load_id, l.model, l.model_sha, l.worker_key, l.incarnation,"
           " l.state, l.class, l.slots, l.pages, l.page_tokens, l.context,"
           " l.reason, l.created_ms, l.ready_ms, l.ended_ms, coalesce(r.bytes,"
           " 0), " +
           sound_row("loads", "l") + " AND (r.bytes IS NULL OR " + sound_row("reservations", "r") +
           ") FROM loads l LEFT JOIN reservations r USING (load_id)"
           " WHERE l.ended_ms = 0 OR l.load_id IN (SELECT load_id FROM"
           " reservations) ORDER BY l.load_id")
              .c_str()));
  std::vector<core::LoadRow> rows;
  auto use = select.use();
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return rows;
    core::LoadRow r;
    int c = 0;
    const auto i32 = [&] { return static_cast<std::int32_t>(use.integer(c++)); };
    r.load_id = use.text(c++);
    r.model = use.text(c++);
    r.model_sha = use.text(c++);
    r.worker_key = use.text(c++);
    r.incarnation = use.text(c++);
    r.state = core::model_state_from_name(use.bytes(c++));
    r.numerics_class = use.text(c++);
    r.slots = i32();
    r.pages = i32();
    r.page_tokens = i32();
    r.context = use.integer(c++);
    r.reason = use.text(c++);
    r.created_ms = use.integer(c++);
    r.ready_ms = use.integer(c++);
    r.ended_ms = use.integer(c++);
    r.bytes = use.integer(c++);
    if (use.integer(c++) == 0) return damaged_row("loads", r.load_id);
    rows.push_back(std::move(r));
  }
}

/// Reads whole requests by a statement that selects their rows.
Result<void> SqliteStore::load_where(Statement::Use& rows, std::vector<BootRequest>& into) {
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return {};
    ReadRequest found = request_row(rows);
    BootRequest request;
    request.row = std::move(found.row);
    Result<void> read = read_details(request);
    if (read) read = load_committed(request);
    if (!read) HOLDFAST_CHECKED(note_damage(request, read.error()));
    if (!found.damaged.empty()) request.damaged = std::move(found.damaged);
    into.push_back(std::move(request));
  }
}

/// Reads the committed ids of each choice that has not ended, and the open attempt.
Result<void> SqliteStore::load_committed(BootRequest& request) {
  for (BootChoice& choice : request.choices) {
    if (choice.row.finish != core::FinishReason::kNone || choice.row.next_index == 0) continue;
    HOLDFAST_TRY(TokenSpan span,
                 tokens(request.row.seq, choice.row.choice, 0, choice.row.next_index));
    choice.ids = std::move(span.ids);
  }
  if (request.row.started_ms == 0) return {};
  auto use = open_attempts_.use();
  use.bind(request.row.seq);
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return {};
    const auto c = static_cast<std::size_t>(use.integer(0));
    if (c >= request.choices.size() || use.integer(6) == 0) {
      return damaged("attempts", request.row.seq);
    }
    BootChoice& choice = request.choices[c];
    choice.has_attempt = true;
    choice.fence = {static_cast<std::uint64_t>(use.integer(1)),
                    static_cast<std::uint64_t>(use.integer(2))};
    choice.worker_key = use.text(3);
    choice.incarnation = use.text(4);
    choice.load_id = use.text(5);
  }
}

/// Notes damage with the request. A damaged row costs one request, not the service; for a damaged
/// file the error is returned.
Result<void> SqliteStore::note_damage(BootRequest& request, const Error& error) {
  if (error.code != Errc::kCorrupt || (sqlite3_errcode(db_.get()) & 0xff) == SQLITE_CORRUPT) {
    return error;
  }
  request.damaged = error.what;
  return {};
}

/// Reads the parameters and choices of a request whose row was read.
Result<void> SqliteStore::read_details(BootRequest& request) {
  std::optional<Error> wrong;  // later, as the caller must still learn how many choices there are
  {
    auto use = payload_.use();
    HOLDFAST_TRY(const bool there, use.bind(request.row.seq).step());
    if (!there || use.integer(5) == 0) wrong = damaged("payload", request.row.seq);
    auto params = decode_params(use.bytes(0));
    if (params) {
      request.sampling = params->sampling;
      request.stops = std::move(params->stops);
      request.echo = params->echo;
      request.meta = use.text(1);
    } else if (!wrong) {
      wrong = params.error();
    }
  }
  auto use = choices_.use();
  use.bind(request.row.seq);
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) break;
    BootChoice choice;
    choice.row.choice = static_cast<std::int32_t>(use.integer(0));
    choice.row.prompt = static_cast<std::int32_t>(use.integer(1));
    choice.row.next_index = use.integer(2);
    choice.row.finish = finish_from(use.bytes(3));
    choice.row.error_code = use.text(4);
    choice.row.error = use.text(5);
    choice.row.deaths = static_cast<std::int32_t>(use.integer(6));
    choice.row.deaths_index = use.integer(7);
    const auto prompt = static_cast<std::size_t>(choice.row.prompt);
    // Each prompt has at least one choice, so its index never exceeds that of its first choice.
    if (choice.row.choice != static_cast<std::int32_t>(request.choices.size()) ||
        choice.row.prompt < 0 || choice.row.prompt > choice.row.choice) {
      return damaged("choices", request.row.seq);
    }
    if (use.integer(9) == 0) wrong = damaged("choices", request.row.seq);
    if (prompt >= request.prompt_tokens.size()) request.prompt_tokens.resize(prompt + 1);
    request.prompt_tokens[prompt] = use.integer(8);
    request.choices.push_back(std::move(choice));
  }
  if (request.choices.empty()) return damaged("choices", request.row.seq);
  if (wrong) return *wrong;
  return {};
}

Result<std::optional<BootRequest>> SqliteStore::read_request(Statement& by, std::string_view a,
                                                             std::string_view b) {
  HOLDFAST_CHECKED(begin_reads());
  BootRequest request;
  std::string damaged;
  {
    auto use = by.use();
    use.bind(a);
    if (!b.empty()) use.bind(b);
    HOLDFAST_TRY(const bool there, use.step());
    if (!there) return std::optional<BootRequest>{};
    ReadRequest found = request_row(use);
    request.row = std::move(found.row);
    damaged = std::move(found.damaged);
  }
  Result<void> read = read_details(request);
  // A live request is in the part of the queue that was not read yet; it goes on where it was.
  if (read && !wire::is_terminal(request.row.state)) read = load_committed(request);
  if (!read) HOLDFAST_CHECKED(note_damage(request, read.error()));
  if (!damaged.empty()) request.damaged = std::move(damaged);
  if (!request.damaged.empty() && wire::is_terminal(request.row.state)) {
    request.row.state = core::RequestState::kFailed;
    request.row.error_code = errc_name(Errc::kCorrupt);
    request.row.error = request.damaged;
  }
  return std::optional<BootRequest>(std::move(request));
}

Result<std::optional<BootRequest>> SqliteStore::find_by_id(const std::string& id) {
  return read_request(by_id_, id, {});
}

Result<std::optional<BootRequest>> SqliteStore::find_by_key(const std::string& tenant,
                                                            const std::string& idem_key) {
  if (idem_key.empty()) return std::optional<BootRequest>{};
  return read_request(by_key_, tenant, idem_key);
}

Result<std::vector<core::TokenId>> SqliteStore::prompt_ids(core::Seq seq, std::int32_t prompt) {
  HOLDFAST_CHECKED(begin_reads());
  auto use = payload_.use();
  HOLDFAST_TRY(const bool there, use.bind(seq).step());
  if (!there || crc32c(use.bytes(2)) != static_cast<std::uint32_t>(use.integer(4))) {
    return damaged("prompt", seq);
  }
  HOLDFAST_TRY(auto prompts, decode_prompts(use.bytes(2)));
  if (prompt < 0 || static_cast<std::size_t>(prompt) >= prompts.size())
    return damaged("prompt", seq);
  return std::move(prompts[static_cast<std::size_t>(prompt)]);
}

Result<std::vector<std::string>> SqliteStore::prompt_text(core::Seq seq) {
  auto use = payload_.use();
  HOLDFAST_TRY(const bool there, use.bind(seq).step());
  if (!there || use.integer(5) == 0) return damaged("prompt text", seq);
  if (use.is_null(3)) return std::vector<std::string>{};
  return decode_strings(use.bytes(3));
}

Result<TokenSpan> SqliteStore::tokens(core::Seq seq, std::int32_t choice, std::int64_t start,
                                      std::int64_t end) {
  TokenSpan span;
  std::int64_t next = start;
  const std::vector<ChunkRow>* tail = tail_.of({seq, choice});
  if (tail == nullptr || start < tail->front().start) {
    HOLDFAST_CHECKED(begin_reads());
    auto use = settled_.use();
    use.bind(seq).bind(std::int64_t{choice}).bind(start).bind(end);
    while (next < end) {
      HOLDFAST_TRY(const bool more, use.step());
      if (!more) break;
      if (!append_chunk(chunk_row(use, 0), end, next, span)) return damaged("tokens", seq);
    }
  }
  if (tail != nullptr) {
    // The last row that begins at or before `next`, and the rows after it.
    auto row = std::upper_bound(tail->begin(), tail->end(), next,
                                [](std::int64_t at, const ChunkRow& r) { return at < r.start; });
    if (row != tail->begin()) --row;
    for (; next < end && row != tail->end(); ++row) {
      if (!append_chunk(*row, end, next, span)) return damaged("tokens", seq);
    }
  }
  if (next < end) return damaged("tokens", seq);
  const auto written = [](const std::string& extra) { return !extra.empty(); };
  if (std::none_of(span.extra.begin(), span.extra.end(), written)) span.extra.clear();
  return span;
}

/// Reads at the opening what an earlier process left in the table, damaged or not.
Result<void> SqliteStore::load_tail() {
  HOLDFAST_TRY(Statement select,
               Statement::prepare(
                   db_.get(), "SELECT start, ids, extra, crc, seq, choice FROM tail ORDER BY pos"));
  auto use = select.use();
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) break;
    tail_.add({use.integer(4), static_cast<std::int32_t>(use.integer(5))}, chunk_row(use, 0));
  }
  tail_.commit();
  return {};
}

Result<ModelBlobs> SqliteStore::model_blobs(const std::string& sha) {
  auto use = blobs_.use();
  HOLDFAST_TRY(const bool there, use.bind(sha).step());
  if (!there) return ModelBlobs{};
  if (use.integer(2) == 0) {
    return Error{Errc::kCorrupt, "model_blobs: the tokenizer of " + sha +
                                     " is damaged; see db check, add the model again"};
  }
  return ModelBlobs{use.text(0), use.text(1)};
}

Result<Store::RequestPage> SqliteStore::list_requests(const RequestSearch& search) {
  HOLDFAST_TRY(const core::Seq first, query_int(db_.get(), "SELECT min(seq) FROM requests"));
  HOLDFAST_TRY(const core::Seq last, query_int(db_.get(), "SELECT max(seq) FROM requests"));
  const bool up = search.oldest_first;
  const core::Seq from = search.from != 0 ? search.from : (up ? first - 1 : last + 1);
  const core::Seq reach = search.look_at > 0 ? search.look_at : last - first + 1;
  const core::Seq low = up ? from + 1 : std::max(from - reach, first);
  const core::Seq high = up ? std::min(from + reach, last) : from - 1;
  const std::string order = up ? "ASC" : "DESC";
  HOLDFAST_TRY(Statement select,
               Statement::prepare(
                   db_.get(), ("SELECT *, " + sound_row("requests") +
                               " FROM requests WHERE seq BETWEEN ?1 AND ?2"
                               " AND (?3 = '' OR state = ?3) AND (?4 = '' OR model = ?4)"
                               " AND (?5 = '' OR tenant = ?5) AND (?6 = '' OR instr(id, ?6) > 0)"
                               " ORDER BY seq " +
                               order + " LIMIT ?7")
                                  .c_str()));
  RequestPage page;
  auto use = select.use();
  use.bind(low).bind(high).bind(search.state).bind(search.model).bind(search.tenant);
  use.bind(search.id).bind(search.limit);
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) break;
    page.rows.push_back(request_row(use).row);
  }
  const bool full = static_cast<std::int64_t>(page.rows.size()) >= search.limit;
  const core::Seq looked = full ? page.rows.back().seq : (up ? high : low);
  if (up ? looked < last : looked > first) page.next = looked;
  return page;
}

Result<std::vector<Store::Attempt>> SqliteStore::attempts(core::Seq seq) {
  HOLDFAST_TRY(
      Statement select,
      Statement::prepare(
          db_.get(),
          ("SELECT choice, fence_epoch, fence_counter, worker_key, incarnation,"
           " load_id, coalesce(reason, ''), start_index, coalesce(end_index, -1),"
           " started_ms, coalesce(ended_ms, 0), adopted, " +
           sound_row("attempts") + " FROM attempts WHERE seq=? ORDER BY fence_epoch, fence_counter")
              .c_str()));
  std::vector<Attempt> list;
  auto use = select.use();
  use.bind(seq);
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return list;
    Attempt a;
    a.choice = static_cast<std::int32_t>(use.integer(0));
    a.fence = {static_cast<std::uint64_t>(use.integer(1)),
               static_cast<std::uint64_t>(use.integer(2))};
    a.worker_key = use.text(3);
    a.incarnation = use.text(4);
    a.load_id = use.text(5);
    a.reason = use.text(6);
    a.start_index = use.integer(7);
    a.end_index = use.integer(8);
    a.started_ms = use.integer(9);
    a.ended_ms = use.integer(10);
    a.adopted = use.integer(11) != 0;
    if (use.integer(12) == 0) a.reason = "this row is damaged; see db check";
    list.push_back(std::move(a));
  }
}

Result<core::Sweep> SqliteStore::oldest(core::Seq from, std::int64_t limit) {
  core::Sweep sweep;
  HOLDFAST_TRY(const std::string pages, query_text(db_.get(), "PRAGMA page_count"));
  HOLDFAST_TRY(const std::string free, query_text(db_.get(), "PRAGMA freelist_count"));
  HOLDFAST_TRY(const std::string bytes, query_text(db_.get(), "PRAGMA page_size"));
  sweep.used_bytes = (std::stoll(pages) - std::stoll(free)) * std::stoll(bytes);
  auto use = oldest_.use();
  use.bind(from).bind(limit);
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return sweep;
    sweep.rows.push_back({use.integer(0), use.integer(1)});
  }
}

}  // namespace holdfast::store
