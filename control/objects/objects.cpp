#include "control/objects/objects.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/core/admission.h"
#include "control/objects/pulls.h"
#include "shared/base/base64.h"
#include "shared/base/json_text.h"
#include "shared/pull/job.h"

namespace holdfast::daemon {

using nlohmann::json;

namespace {

constexpr std::size_t kKindBytesMax = 32;
constexpr std::size_t kIdBytesMax = 128;
constexpr std::size_t kBodyBytesMax = 1 << 20;
constexpr std::int64_t kReadBytesMax = 512 * 1024;
constexpr std::int64_t kReadBytes = 256 * 1024;
constexpr std::int64_t kListMax = 1000;
constexpr std::int64_t kListBytes = 8 << 20;  // of a page, far below the bound of a message
constexpr std::int64_t kExpireAtOnce = 100;

json object_json(const core::ObjectRow& r) {
  return {{"seq", r.seq},
          {"kind", r.kind},
          {"id", r.id},
          {"owner", r.owner},
          {"version", r.version},
          {"created_ms", r.created_ms},
          {"changed_ms", r.changed_ms},
          {"expires_ms", r.expires_ms},
          {"body", try_parse_json<json>(r.body)},
          {"bytes", r.bytes}};
}

std::int64_t size_of(const core::ObjectRow& r) {
  return r.bytes + static_cast<std::int64_t>(r.body.size());
}

std::string text_of(const json& args, const char* key) {
  const auto it = args.find(key);
  return it != args.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::int64_t number_of(const json& args, const char* key, std::int64_t otherwise) {
  const auto it = args.find(key);
  return it != args.end() && it->is_number_integer() ? it->get<std::int64_t>() : otherwise;
}

/// Returns true for keys, webhooks and pulls, which belong to no tenant.
bool is_of_operators(const std::string& kind) {
  return object_class(kind) == ObjectClass::kOperator;
}

bool good_name(const std::string& text, std::size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

struct Objects::Change {
  Name name;
  std::string owner;
  std::int64_t version = -1;  // expected one; 0: the object must be new; -1: any
  std::optional<std::string> body;
  std::int64_t expires_ms = -1;  // -1: unchanged
  std::string append;
  std::int64_t append_at = -1;  // expected bytes of content so far; -1: any
  const core::Now& now;
  const core::Machine& machine;

  /// Checks names and reads body and content. Returns what is wrong, or nothing.
  std::string read(const wire::Op& op, const json& args);
  void read_body(const json& args, std::string& wrong);
  void read_append(const wire::Op& op, const json& args, std::string& wrong);
  /// Bytes that the change adds to the object `row`.
  std::int64_t growth(const std::optional<core::ObjectRow>& row) const;
};

std::string Objects::Change::read(const wire::Op& op, const json& args) {
  std::string wrong;
  if (!good_name(name.first, kKindBytesMax)) wrong = "kind: expected 1 to 32 characters";
  if (!good_name(name.second, kIdBytesMax)) wrong = "id: expected 1 to 128 characters";
  if (!op.tenant.empty() && is_of_operators(name.first)) {
    wrong = "kind: " + name.first + " is for operators";
  }
  read_body(args, wrong);
  read_append(op, args, wrong);
  return wrong;
}

void Objects::Change::read_body(const json& args, std::string& wrong) {
  if (!args.is_object() || !args.contains("body")) return;
  body = args["body"].dump();
  if (!args["body"].is_object() || body->size() > kBodyBytesMax) {
    wrong = "body: expected a JSON object of at most 1 MiB";
  }
}

void Objects::Change::read_append(const wire::Op& op, const json& args, std::string& wrong) {
  if (!op.bytes.empty()) {
    append = op.bytes;
  } else if (const std::string text = text_of(args, "append"); !text.empty()) {
    auto bytes = from_base64(text);
    if (!bytes) wrong = "append: expected base64";
    append = std::move(bytes).value_or(std::string());
  }
}

std::int64_t Objects::Change::growth(const std::optional<core::ObjectRow>& row) const {
  const auto appended = static_cast<std::int64_t>(append.size());
  if (!body) return appended;
  const std::int64_t before = row ? static_cast<std::int64_t>(row->body.size()) : 0;
  return appended - before + static_cast<std::int64_t>(body->size());
}

bool Objects::changes(std::string_view verb) {
  return verb == "objects.put" || verb == "objects.delete" || changes_pulls(verb);
}

Result<void> Objects::boot() {
  return count();
}

Result<void> Objects::count() {
  HOLDFAST_TRY(const store::Store::ObjectTotals totals, store_.object_totals());
  use_.load(totals.groups);
  last_ = std::max(last_, totals.last);
  stale_ = false;
  return {};
}

void Objects::count_change(const core::ObjectRow& row, int by) {
  use_.add(row.kind, row.owner, by, by * size_of(row));
}

/// Returns true if `more` bytes fit. They are written twice: to the log, and from there to the
/// file, which may have to grow by all that the log has.
bool Objects::has_disk_space(std::int64_t more, const core::Config& config) const {
  constexpr std::int64_t kPageBytes = 4096;
  const std::int64_t required_bytes = 2 * (group_bytes_ + more) + store_.wal_pages() * kPageBytes;
  return store_.disk_free() - required_bytes >= config.storage_min_free_bytes;
}

Result<std::optional<core::ObjectRow>> Objects::find(const Name& name) {
  const auto it = changed_.find(name);
  if (it != changed_.end()) return it->second;
  return store_.find_object(name.first, name.second);
}

/// Refuses a change that expects another owner, version or length than `now` has.
std::optional<wire::Refusal> Objects::refuse_expectation(
    const Change& change, const std::optional<core::ObjectRow>& now) {
  const std::string what = change.name.first + " " + change.name.second;
  if (now && !change.owner.empty() && now->owner != change.owner) {
    return core::refuse(Errc::kConflict, what + " belongs to another owner");
  }
  const std::int64_t version = now ? now->version : 0;
  if (change.version >= 0 && change.version != version) {
    return core::refuse(Errc::kConflict, what + " has version " + std::to_string(version) +
                                             ", expected " + std::to_string(change.version) +
                                             "; read it again");
  }
  const std::int64_t bytes = now ? now->bytes : 0;
  if (change.append_at < 0 || change.append_at == bytes) return std::nullopt;
  return core::refuse(Errc::kConflict, what + " has " + std::to_string(bytes) +
                                           " bytes of content, expected " +
                                           std::to_string(change.append_at));
}

std::optional<wire::Refusal> Objects::refuse_growth(
    const Change& change, const std::optional<core::ObjectRow>& now) const {
  const core::Config& config = change.machine.config();
  const std::int64_t more = change.growth(now);
  const std::string& owner = now ? now->owner : change.owner;
  const ObjectGrowth growth{change.name.first, owner, !now, more};
  if (auto refusal = use_.refuse(growth, config)) return refusal;
  const bool client = object_class(change.name.first) == ObjectClass::kClient;
  if (client && more > 0 && (change.machine.core().storage_low || !has_disk_space(more, config))) {
    return core::refuse(Errc::kStorageFull, "the disk of the state directory is nearly full");
  }
  return std::nullopt;
}

std::optional<wire::Refusal> Objects::refuse(const Change& change,
                                             const std::optional<core::ObjectRow>& now) const {
  if (auto refusal = refuse_expectation(change, now)) return refusal;
  if (!now && !change.body) {
    return core::refuse(Errc::kInvalidRequest,
                        change.name.first + " " + change.name.second + ": a body is wanted");
  }
  return refuse_growth(change, now);
}

Result<wire::OpResult> Objects::put(const Change& change, core::Effects& out) {
  HOLDFAST_TRY(const auto now, find(change.name));
  if (auto refusal = refuse(change, now))
    return wire::OpResult{0, false, std::move(*refusal), {}, {}};
  core::ObjectRow row = now.value_or(core::ObjectRow{});
  if (!now) {
    row.seq = ++last_;
    row.kind = change.name.first;
    row.id = change.name.second;
    row.owner = change.owner;
    row.created_ms = change.now.wall_ms;
  } else {
    count_change(row, -1);
  }
  ++row.version;
  row.changed_ms = change.now.wall_ms;
  if (change.body) row.body = *change.body;
  if (change.expires_ms >= 0) row.expires_ms = change.expires_ms;
  row.bytes += static_cast<std::int64_t>(change.append.size());
  count_change(row, 1);
  group_bytes_ += static_cast<std::int64_t>(row.body.size() + change.append.size());
  const json answer = {{"seq", row.seq}, {"version", row.version}, {"bytes", row.bytes}};
  changed_[change.name] = row;
  out.write(core::PutObject{std::move(row), change.append}, core::Durability::kFull);
  return wire::OpResult{0, true, {}, answer.dump(), {}};
}

Result<wire::OpResult> Objects::remove(const Change& change, core::Effects& out) {
  HOLDFAST_TRY(const auto now, find(change.name));
  const bool theirs = now && (change.owner.empty() || now->owner == change.owner);
  if (!theirs) return wire::OpResult{0, true, {}, R"({"deleted":false})", {}};
  if (change.version >= 0 && now->version != change.version) {
    return wire::OpResult{0, false, *refuse(change, now), {}, {}};
  }
  out.write(core::DeleteObject{now->seq}, core::Durability::kFull);
  count_change(*now, -1);
  changed_[change.name] = std::nullopt;
  return wire::OpResult{0, true, {}, R"({"deleted":true})", {}};
}

/// Steps a verb of pulls: the change of a row that it stands for.
Result<wire::OpResult> Objects::step_pull(const std::string& verb, const json& args,
                                          const core::Now& now, const core::Machine& machine,
                                          core::Effects& out) {
  const auto id = pull_id(args);
  if (const auto* refusal = std::get_if<wire::Refusal>(&id)) {
    return wire::OpResult{0, false, *refusal, {}, {}};
  }
  const Name name{pull::kPullKind, std::get<std::string>(id)};
  HOLDFAST_TRY(auto row, find(name));
  std::optional<std::string> path;
  const auto model = machine.registry().models().find(name.second);
  if (model != machine.registry().models().end()) path = model->second.row.path;
  const auto decided = change_pull(verb, args, row, path);
  if (const auto* refusal = std::get_if<wire::Refusal>(&decided)) {
    return wire::OpResult{0, false, *refusal, {}, {}};
  }
  const auto& pull = std::get<PullChange>(decided);
  if (!pull.body.empty()) {
    Change change{name, {}, -1, pull.body, pull.fresh ? 0 : -1, {}, -1, now, machine};
    HOLDFAST_TRY(wire::OpResult done, put(change, out));
    if (!done.ok) return done;
    row = changed_[name];
  }
  json document = pull_document(*row);
  document["joined"] = pull.joined;
  return wire::OpResult{0, true, {}, document.dump(), {}};
}

Result<void> Objects::change(core::PeerId peer, const wire::Op& op, const core::Now& now,
                             const core::Machine& machine, core::Effects& out) {
  if (stale_ && changed_.empty()) HOLDFAST_CHECKED(count());
  const json args = try_parse_json<json>(op.args);
  if (changes_pulls(op.verb)) {
    HOLDFAST_TRY(wire::OpResult result, step_pull(op.verb, args, now, machine, out));
    result.tag = op.tag;
    out.send(peer, std::move(result));
    return {};
  }
  Change change{{text_of(args, "kind"), text_of(args, "id")},
                op.tenant.empty() ? text_of(args, "owner") : op.tenant,
                number_of(args, "version", -1),
                {},
                number_of(args, "expires_ms", -1),
                {},
                number_of(args, "append_at", -1),
                now,
                machine};
  const std::string wrong = change.read(op, args);
  wire::OpResult result;
  if (!wrong.empty()) {
    result.refusal = core::refuse(Errc::kUsage, op.verb + ": " + wrong);
  } else if (op.verb == "objects.put") {
    HOLDFAST_TRY(result, put(change, out));
  } else {
    HOLDFAST_TRY(result, remove(change, out));
  }
  result.tag = op.tag;
  out.send(peer, std::move(result));
  return {};
}

Result<void> Objects::expire(const core::Now& now, core::Effects& out) {
  HOLDFAST_TRY(const std::vector<core::Seq> seqs,
               store_.expired_objects(now.wall_ms, kExpireAtOnce));
  if (seqs.empty()) return {};
  for (const core::Seq seq : seqs) {
    const bool changes = std::any_of(changed_.begin(), changed_.end(), [&](const auto& entry) {
      return entry.second && entry.second->seq == seq;
    });
    if (!changes) out.write(core::DeleteObject{seq}, core::Durability::kNormal);
  }
  stale_ = true;
  return {};
}

namespace {

/// A page of objects, and whether there are more behind it.
Result<Objects::Reply> render_list(const json& args, store::Store::ObjectQuery query,
                                   store::Store& store) {
  query.from = number_of(args, "from", 0);
  query.newest_first = text_of(args, "order") != "oldest";
  query.limit = std::clamp<std::int64_t>(number_of(args, "limit", 100), 1, kListMax);
  HOLDFAST_TRY(const auto rows, store.list_objects(query));
  json list = json::array();
  std::int64_t bytes = 0;
  for (const core::ObjectRow& row : rows) {
    if (bytes > kListBytes) break;  // the next page begins here
    bytes += static_cast<std::int64_t>(row.body.size());
    list.push_back(object_json(row));
  }
  const bool more =
      static_cast<std::int64_t>(rows.size()) == query.limit || list.size() < rows.size();
  return Objects::Reply{json{{"objects", std::move(list)}, {"more", more}}.dump(), {}};
}

/// An object, with a part of its content if the arguments name one.
Result<Objects::Reply> render_object(const json& args, const std::string& kind,
                                     const std::string& owner, store::Store& store) {
  HOLDFAST_TRY(const auto row, store.find_object(kind, text_of(args, "id")));
  if (!row || (!owner.empty() && row->owner != owner)) {
    return Objects::Reply{R"({"found":false})", {}};
  }
  json answer = {{"found", true}, {"object", object_json(*row)}};
  const std::int64_t from = number_of(args, "from", -1);
  std::string bytes;
  if (from >= 0) {
    const std::int64_t limit =
        std::clamp<std::int64_t>(number_of(args, "limit", kReadBytes), 1, kReadBytesMax);
    HOLDFAST_TRY(bytes, store.object_content(row->seq, from, limit));
    if (args.find("raw") == args.end() || args["raw"] != true)
      answer["content"] = to_base64(std::exchange(bytes, {}));
  }
  return Objects::Reply{answer.dump(), std::move(bytes)};
}

}  // namespace

Result<Objects::Reply> Objects::render(const std::string& verb, const std::string& args_text,
                                       store::Store& store, const std::string& tenant) {
  const json args = try_parse_json<json>(args_text);
  const std::string kind = text_of(args, "kind");
  const std::string owner = tenant.empty() ? text_of(args, "owner") : tenant;
  if (!tenant.empty() && is_of_operators(kind)) {
    return Error{Errc::kUnauthorized, verb + ": kind " + kind + " is for operators"};
  }
  if (verb != "objects.list") return render_object(args, kind, owner, store);
  store::Store::ObjectQuery query;
  query.kind = kind;
  query.owner = owner;
  return render_list(args, std::move(query), store);
}

}  // namespace holdfast::daemon
