// Reads of requests: the live ones for a start, and single ones afterwards.
#include <algorithm>
#include <map>
#include <utility>

#include "control/store/damage.h"
#include "control/store/encode.h"
#include "control/store/request_repository.h"

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

/// Reads a row of requests. A damaged request that has ended counts as failed, so that it hides no
/// other from a list.
ReadRequest request_row(const CheckedRows<kRequestColumns>& rows) {
  core::RequestRow r;
  r.seq = rows.integer("seq");
  r.id = rows.text("id");
  r.tenant = rows.text("tenant");
  r.idem_key = rows.text("idem_key");
  r.body_hash = rows.text("body_hash");
  r.model = rows.text("model");
  r.model_sha = rows.text("model_sha");
  const std::optional<core::RequestState> state = state_from(rows.bytes("state"));
  r.state = state.value_or(core::RequestState::kFailed);
  r.priority =
      static_cast<core::PriorityClass>(std::clamp<std::int64_t>(rows.integer("priority"), 0, 2));
  r.numerics_class = rows.text("class");
  r.config_version = rows.integer("config_version");
  r.n = rows.int32("n");
  r.max_tokens = rows.integer("max_tokens");
  r.on_disconnect =
      rows.flag("on_disconnect") ? wire::OnDisconnect::kCancel : wire::OnDisconnect::kContinue;
  r.created_ms = rows.integer("created_ms");
  r.started_ms = rows.integer("started_ms");
  r.finished_ms = rows.integer("finished_ms");
  r.queue_deadline_ms = rows.integer("queue_deadline_ms");
  r.total_deadline_ms = rows.integer("total_deadline_ms");
  r.error_code = rows.text("error_code");
  r.error = rows.text("error");
  r.alias = rows.text("alias");
  r.route_key = rows.uint64("route_key");
  r.canary = rows.integer("canary");
  r.rerouted_from = rows.text("rerouted_from");
  r.api_key = rows.text("api_key");
  if (state && rows.is_sound()) return {std::move(r), {}};
  std::string damaged = (state ? "request row " : "the state in request row ") +
                        std::to_string(r.seq) + " is damaged";
  if (wire::is_terminal(r.state)) {
    r.state = core::RequestState::kFailed;
    r.error_code = errc_name(Errc::kCorrupt);
    r.error = damaged;
  }
  return {std::move(r), std::move(damaged)};
}

/// Reads the fence of an attempt.
template <class RowsOfAttempts>
core::Fence fence_of(const RowsOfAttempts& rows) {
  return {rows.uint64("fence_epoch"), rows.uint64("fence_counter")};
}

}  // namespace

Result<core::Seq> RequestRepository::begin_load() {
  HOLDFAST_TRY(last_seq_,
               query_int(connection_.get(), "SELECT coalesce(max(seq), 0) FROM requests"));
  read_upto_ = 0;
  return core::Seq{last_seq_};
}

Result<std::int64_t> RequestRepository::count_queued() {
  return query_int(connection_.get(),
                   "SELECT count(*) FROM requests WHERE state IN ('queued', 'running',"
                   " 'quarantined') AND state='queued'");
}

Result<std::vector<BootRequest>> RequestRepository::load_started() {
  CheckedSelect<kRequestColumns> started;
  HOLDFAST_CHECKED(started.prepare(connection_.get(), "requests",
                                   "WHERE state IN ('queued', 'running', 'quarantined') AND"
                                   " state<>'queued' ORDER BY seq"));
  std::vector<BootRequest> requests;
  auto rows = started.rows();
  HOLDFAST_CHECKED(load_where(rows, requests));
  return requests;
}

Result<core::BootQueuePage> RequestRepository::load_queue_page(std::int64_t limit) {
  core::BootQueuePage more;
  HOLDFAST_CHECKED(connection_.begin_reads());
  auto rows = queued_.rows();
  rows.bind(read_upto_).bind(last_seq_).bind(limit);
  HOLDFAST_CHECKED(load_where(rows, more.requests));
  more.last = static_cast<std::int64_t>(more.requests.size()) < limit;
  if (!more.requests.empty()) read_upto_ = more.requests.back().row.seq;
  return more;
}

Result<std::vector<core::KeyUse>> RequestRepository::load_keys(std::int64_t since_ms) {
  static constexpr Columns kLive{"api_key", "live"};
  static constexpr Columns kNewest{"created_ms", "api_key"};
  std::map<std::string, core::KeyUse> uses;
  Select<kLive> live;
  HOLDFAST_CHECKED(live.prepare(connection_.get(),
                                "SELECT api_key, count(*) AS live FROM requests WHERE state IN"
                                " ('queued', 'running', 'quarantined') AND api_key <> ''"
                                " GROUP BY api_key"));
  for (auto rows = live.rows();;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) break;
    uses[rows.text("api_key")].live = rows.integer("live");
  }
  // From the newest row back to the first that is too old.
  Select<kNewest> newest;
  HOLDFAST_CHECKED(newest.prepare(connection_.get(),
                                  "SELECT created_ms, api_key FROM requests ORDER BY seq DESC"));
  for (auto rows = newest.rows();;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more || rows.integer("created_ms") < since_ms) break;
    if (std::string key = rows.text("api_key"); !key.empty()) {
      uses[std::move(key)].created_ms.push_back(rows.integer("created_ms"));
    }
  }
  std::vector<core::KeyUse> list;
  for (auto& [key, use] : uses) {
    use.key = key;
    list.push_back(std::move(use));
  }
  return list;
}

/// Reads whole requests by a statement that selects their rows.
Result<void> RequestRepository::load_where(RequestRows& rows, std::vector<BootRequest>& into) {
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

/// Reads the committed ids of each choice that has not ended, and the open attempts.
Result<void> RequestRepository::load_committed(BootRequest& request) {
  for (BootChoice& choice : request.choices) {
    if (choice.row.finish != core::FinishReason::kNone || choice.row.next_index == 0) continue;
    HOLDFAST_TRY(domain::TokenRun span,
                 tokens_.tokens(request.row.seq, choice.row.choice, 0, choice.row.next_index));
    choice.ids = std::move(span.ids);
  }
  return request.row.started_ms == 0 ? Result<void>() : load_open_attempts(request);
}

Result<void> RequestRepository::load_open_attempts(BootRequest& request) {
  auto rows = open_attempts_.rows();
  rows.bind(request.row.seq);
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return {};
    const auto c = static_cast<std::size_t>(rows.integer("choice"));
    if (c >= request.choices.size() || !rows.is_sound()) {
      return damaged_of_request("attempts", request.row.seq);
    }
    BootChoice& choice = request.choices[c];
    choice.has_attempt = true;
    choice.fence = fence_of(rows);
    choice.worker_key = rows.text("worker_key");
    choice.incarnation = rows.text("incarnation");
    choice.load_id = rows.text("load_id");
  }
}

/// Notes damage with the request. A damaged row costs one request, not the service; for a damaged
/// file the error is returned.
Result<void> RequestRepository::note_damage(BootRequest& request, const Error& error) {
  const bool file = (sqlite3_errcode(connection_.get()) & 0xff) == SQLITE_CORRUPT;
  if (error.code != Errc::kCorrupt || file) return error;
  request.damaged = error.what;
  return {};
}

/// Reads the parameters and choices of a request whose row was read.
Result<void> RequestRepository::read_details(BootRequest& request) {
  std::optional<Error> wrong;  // later, as the caller must still learn how many choices there are
  {
    auto row = payload_.rows();
    HOLDFAST_TRY(const bool there, row.bind(request.row.seq).step());
    if (!there || !row.is_sound()) wrong = damaged_of_request("payload", request.row.seq);
    auto params = decode_params(row.bytes("params"));
    if (params) {
      request.sampling = params->sampling;
      request.stops = std::move(params->stops);
      request.echo = params->echo;
      request.meta = row.text("meta");
    } else if (!wrong) {
      wrong = params.error();
    }
  }
  HOLDFAST_CHECKED(read_choices(request, wrong));
  if (wrong) return *wrong;
  return {};
}

/// Reads the choices of a request. `wrong` becomes the error for one whose checksum differs.
Result<void> RequestRepository::read_choices(BootRequest& request, std::optional<Error>& wrong) {
  auto rows = choices_.rows();
  rows.bind(request.row.seq);
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) break;
    BootChoice choice;
    choice.row.choice = rows.int32("choice");
    choice.row.prompt = rows.int32("prompt");
    choice.row.next_index = rows.integer("next_index");
    choice.row.finish = finish_from(rows.bytes("finish"));
    choice.row.error_code = rows.text("error_code");
    choice.row.error = rows.text("error");
    choice.row.deaths = rows.int32("deaths");
    choice.row.deaths_index = rows.integer("deaths_index");
    const auto prompt = static_cast<std::size_t>(choice.row.prompt);
    // Each prompt has at least one choice, so its index never exceeds that of its first choice.
    if (choice.row.choice != static_cast<std::int32_t>(request.choices.size()) ||
        choice.row.prompt < 0 || choice.row.prompt > choice.row.choice) {
      return damaged_of_request("choices", request.row.seq);
    }
    if (!rows.is_sound()) wrong = damaged_of_request("choices", request.row.seq);
    if (prompt >= request.prompt_tokens.size()) request.prompt_tokens.resize(prompt + 1);
    request.prompt_tokens[prompt] = rows.integer("prompt_tokens");
    request.choices.push_back(std::move(choice));
  }
  if (request.choices.empty()) return damaged_of_request("choices", request.row.seq);
  return {};
}

Result<std::optional<BootRequest>> RequestRepository::read_request(
    CheckedSelect<kRequestColumns>& by, std::string_view a, std::string_view b) {
  HOLDFAST_CHECKED(connection_.begin_reads());
  BootRequest request;
  std::string damaged;
  {
    auto row = by.rows();
    row.bind(a);
    if (!b.empty()) row.bind(b);
    HOLDFAST_TRY(const bool there, row.step());
    if (!there) return std::optional<BootRequest>{};
    ReadRequest found = request_row(row);
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

Result<std::optional<BootRequest>> RequestRepository::find_by_id(const std::string& id) {
  return read_request(by_id_, id, {});
}

Result<std::optional<BootRequest>> RequestRepository::find_by_key(const std::string& tenant,
                                                                  const std::string& idem_key) {
  if (idem_key.empty()) return std::optional<BootRequest>{};
  return read_request(by_key_, tenant, idem_key);
}

Result<std::vector<core::TokenId>> RequestRepository::prompt_ids(core::Seq seq,
                                                                 std::int32_t prompt) {
  HOLDFAST_CHECKED(connection_.begin_reads());
  auto row = payload_.rows();
  HOLDFAST_TRY(const bool there, row.bind(seq).step());
  if (!there || crc32c(row.bytes("prompts")) != static_cast<std::uint32_t>(row.integer("crc"))) {
    return damaged_of_request("prompt", seq);
  }
  HOLDFAST_TRY(auto prompts, decode_prompts(row.bytes("prompts")));
  if (prompt < 0 || static_cast<std::size_t>(prompt) >= prompts.size())
    return damaged_of_request("prompt", seq);
  return std::move(prompts[static_cast<std::size_t>(prompt)]);
}

Result<std::vector<std::string>> RequestRepository::prompt_text(core::Seq seq) {
  auto row = payload_.rows();
  HOLDFAST_TRY(const bool there, row.bind(seq).step());
  if (!there || !row.is_sound()) return damaged_of_request("prompt text", seq);
  if (row.is_null("prompt_text")) return std::vector<std::string>{};
  return decode_strings(row.bytes("prompt_text"));
}

Result<Store::RequestPage> RequestRepository::list(const Store::RequestSearch& search) {
  sqlite3* db = connection_.get();
  HOLDFAST_TRY(const core::Seq first, query_int(db, "SELECT min(seq) FROM requests"));
  HOLDFAST_TRY(const core::Seq last, query_int(db, "SELECT max(seq) FROM requests"));
  const bool up = search.oldest_first;
  const core::Seq from = search.from != 0 ? search.from : (up ? first - 1 : last + 1);
  const core::Seq reach = search.look_at > 0 ? search.look_at : last - first + 1;
  const core::Seq low = up ? from + 1 : std::max(from - reach, first);
  const core::Seq high = up ? std::min(from + reach, last) : from - 1;
  CheckedSelect<kRequestColumns> select;
  HOLDFAST_CHECKED(
      select.prepare(db, "requests",
                     std::string("WHERE seq BETWEEN ?1 AND ?2"
                                 " AND (?3 = '' OR state = ?3) AND (?4 = '' OR model = ?4)"
                                 " AND (?5 = '' OR tenant = ?5) AND (?6 = '' OR instr(id, ?6) > 0)"
                                 " ORDER BY seq ") +
                         (up ? "ASC" : "DESC") + " LIMIT ?7"));
  Store::RequestPage page;
  auto rows = select.rows();
  rows.bind(low).bind(high).bind(search.state).bind(search.model).bind(search.tenant);
  rows.bind(search.id).bind(search.limit);
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) break;
    page.rows.push_back(request_row(rows).row);
  }
  const bool full = static_cast<std::int64_t>(page.rows.size()) >= search.limit;
  const core::Seq looked = full ? page.rows.back().seq : (up ? high : low);
  if (up ? looked < last : looked > first) page.next = looked;
  return page;
}

Result<std::vector<Store::Attempt>> RequestRepository::attempts(core::Seq seq) {
  static constexpr Columns kAttempt{"choice",      "fence_epoch", "fence_counter", "worker_key",
                                    "incarnation", "load_id",     "reason",        "start_index",
                                    "end_index",   "started_ms",  "ended_ms",      "adopted"};
  CheckedSelect<kAttempt> select;
  HOLDFAST_CHECKED(select.prepare_as(
      connection_.get(),
      "SELECT choice, fence_epoch, fence_counter, worker_key, incarnation, load_id,"
      " coalesce(reason, '') AS reason, start_index, coalesce(end_index, -1) AS end_index,"
      " started_ms, coalesce(ended_ms, 0) AS ended_ms, adopted, " +
          sound_row("attempts") +
          " AS sound FROM attempts WHERE seq=? ORDER BY fence_epoch, fence_counter"));
  std::vector<Store::Attempt> list;
  auto rows = select.rows();
  rows.bind(seq);
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return list;
    Store::Attempt a;
    a.choice = rows.int32("choice");
    a.fence = fence_of(rows);
    a.worker_key = rows.text("worker_key");
    a.incarnation = rows.text("incarnation");
    a.load_id = rows.text("load_id");
    a.reason = rows.text("reason");
    a.start_index = rows.integer("start_index");
    a.end_index = rows.integer("end_index");
    a.started_ms = rows.integer("started_ms");
    a.ended_ms = rows.integer("ended_ms");
    a.adopted = rows.flag("adopted");
    if (!rows.is_sound()) a.reason = "this row is damaged; see db check";
    list.push_back(std::move(a));
  }
}

Result<std::vector<core::Sweep::Row>> RequestRepository::oldest(core::Seq from,
                                                                std::int64_t limit) {
  std::vector<core::Sweep::Row> found;
  auto rows = oldest_.rows();
  rows.bind(from).bind(limit);
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return found;
    found.push_back({rows.integer("seq"), rows.integer("finished_ms")});
  }
}

}  // namespace holdfast::store
