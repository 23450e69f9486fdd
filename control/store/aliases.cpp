// Aliases and canaries. Their rows are few and seldom written, so each statement is prepared when
// it is needed.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/core/aliases.h"
#include "control/store/row_checksum.h"
#include "control/store/sqlite_store.h"
#include "shared/base/json_text.h"

namespace holdfast::store {
namespace {

using nlohmann::json;

template <class Fields, class Row>
std::string encode_numbers(const Fields& fields, const Row& row) {
  json j = json::object();
  for (const auto& field : fields) j[field.name] = row.*field.field;
  return j.dump();
}

/// Reads numbers by name. A missing name keeps its default: an older program wrote the text.
template <class Fields, class Row>
Result<void> decode_numbers(const Fields& fields, std::string_view text, Row& row,
                            const std::string& where) {
  const json j = try_parse_json<json>(text);
  if (!j.is_object()) return Error{Errc::kCorrupt, where + ": the stored JSON is damaged"};
  for (const auto& field : fields) {
    const auto it = j.find(field.name);
    if (it != j.end() && it->is_number_integer())
      row.*field.field = it->template get<std::int64_t>();
  }
  return {};
}

Result<core::AliasTargets> read_targets(std::string_view text, const std::string& alias) {
  if (text.empty()) return core::AliasTargets{};
  auto targets = core::parse_targets(text);
  if (targets) return targets;
  return Error{Errc::kCorrupt, "aliases: targets of " + alias + ": " + targets.error().what};
}

std::string select_canaries(const char* where) {
  return "SELECT id, alias, model, state, settings, windows, passed, suspect, started_ms,"
         " ended_ms, who, reason, " +
         sound_row("canaries") + " FROM canaries " + where;
}

Error damaged(const char* table, const std::string& key) {
  return Error{Errc::kCorrupt, std::string(table) + ": row " + key +
                                   " is damaged: its checksum differs; see db check"};
}

/// Columns of select_canaries().
Result<core::CanaryRow> canary_row(const Statement::Use& use) {
  if (use.integer(12) == 0) return damaged("canaries", use.text(0));
  core::CanaryRow r;
  r.id = use.integer(0);
  r.alias = use.text(1);
  r.model = use.text(2);
  r.state = core::canary_state_from_name(use.bytes(3));
  HOLDFAST_CHECKED(decode_numbers(core::canary_fields(), use.bytes(4), r.settings,
                                  "canaries: settings of canary " + use.text(0)));
  r.windows = use.integer(5);
  r.passed = use.integer(6);
  r.suspect = use.integer(7) != 0;
  r.started_ms = use.integer(8);
  r.ended_ms = use.integer(9);
  r.who = use.text(10);
  r.reason = use.text(11);
  return r;
}
constexpr const char* kAliasUpsert =
    " ON CONFLICT(name) DO UPDATE SET targets=excluded.targets, pending=excluded.pending,"
    " pending_who=excluded.pending_who, pending_ms=excluded.pending_ms,"
    " changed_ms=excluded.changed_ms, checksum=excluded.checksum";
constexpr const char* kCanaryUpsert =
    " ON CONFLICT(id) DO UPDATE SET state=excluded.state, settings=excluded.settings,"
    " windows=excluded.windows, passed=excluded.passed, suspect=excluded.suspect,"
    " ended_ms=excluded.ended_ms, who=excluded.who, reason=excluded.reason,"
    " checksum=excluded.checksum";

}  // namespace

Result<void> SqliteStore::write(const core::AliasChange& c) {
  return std::visit([this](const auto& change) { return write_alias(change); }, c);
}

Result<void> SqliteStore::write_alias(const core::PutAlias& c) {
  HOLDFAST_TRY(Statement put,
               Statement::prepare(
                   db_.get(), checked_insert("aliases",
                                             "name, id, targets, pending, pending_who, pending_ms,"
                                             " created_ms, changed_ms",
                                             "INSERT", kAliasUpsert)
                                  .c_str()));
  const core::AliasRow& r = c.row;
  const std::string targets = core::targets_text(r.targets);
  const std::string pending = core::targets_text(r.pending);
  auto use = put.use();
  use.bind(r.name).bind(r.id).bind(targets).bind(pending).bind(r.pending_who);
  return use.bind(r.pending_ms).bind(r.created_ms).bind(r.changed_ms).run();
}

Result<void> SqliteStore::write_alias(const core::DeleteAlias& c) {
  HOLDFAST_TRY(Statement remove, Statement::prepare(db_.get(), "DELETE FROM aliases WHERE name=?"));
  return remove.use().bind(c.name).run();
}

Result<void> SqliteStore::write_alias(const core::InsertAliasHistory& c) {
  HOLDFAST_TRY(Statement insert,
               Statement::prepare(
                   db_.get(), checked_insert("alias_history",
                                             "alias, at_ms, who, action, from_targets, to_targets,"
                                             " reason")
                                  .c_str()));
  const core::AliasHistoryRow& r = c.row;
  auto use = insert.use();
  use.bind(r.alias).bind(r.at_ms).bind(r.who).bind(r.action).bind(r.from);
  return use.bind(r.to).bind(r.reason).run();
}

Result<void> SqliteStore::write_alias(const core::PutCanary& c) {
  HOLDFAST_TRY(Statement put,
               Statement::prepare(
                   db_.get(), checked_insert("canaries",
                                             "id, alias, model, state, settings, windows, passed,"
                                             " suspect, started_ms, ended_ms, who, reason",
                                             "INSERT", kCanaryUpsert)
                                  .c_str()));
  const core::CanaryRow& r = c.row;
  const std::string settings = encode_numbers(core::canary_fields(), r.settings);
  auto use = put.use();
  use.bind(r.id).bind(r.alias).bind(r.model).bind(core::canary_state_name(r.state));
  use.bind(settings).bind(r.windows).bind(r.passed).bind(std::int64_t{r.suspect});
  return use.bind(r.started_ms).bind(r.ended_ms).bind(r.who).bind(r.reason).run();
}

Result<void> SqliteStore::write_alias(const core::InsertCanaryWindow& c) {
  HOLDFAST_TRY(
      Statement insert,
      Statement::prepare(db_.get(), checked_insert("canary_windows",
                                                   "canary, window, started_ms, ended_ms, decision,"
                                                   " reason, canary_side, stable_side")
                                        .c_str()));
  const core::CanaryWindowRow& r = c.row;
  const std::string canary = encode_numbers(core::evidence_fields(), r.canary_side);
  const std::string stable = encode_numbers(core::evidence_fields(), r.stable_side);
  auto use = insert.use();
  use.bind(r.canary).bind(r.window).bind(r.started_ms).bind(r.ended_ms).bind(r.decision);
  return use.bind(r.reason).bind(canary).bind(stable).run();
}

Result<void> SqliteStore::write_alias(const core::RerouteRequest& c) {
  sums_.forget(c.seq);  // it changes columns that no other UPDATE does
  HOLDFAST_TRY(Statement update,
               Statement::prepare(
                   db_.get(), checked_update("requests", "model, model_sha, canary, rerouted_from",
                                             "WHERE seq=?")
                                  .c_str()));
  auto use = update.use();
  use.bind(c.model).bind(c.model_sha).bind(std::int64_t{0}).bind(c.rerouted_from);
  return use.bind(c.seq).run();
}

Result<std::vector<core::AliasRow>> SqliteStore::load_aliases() {
  HOLDFAST_TRY(
      Statement select,
      Statement::prepare(db_.get(), ("SELECT name, id, targets, pending, pending_who, pending_ms,"
                                     " created_ms, changed_ms, " +
                                     sound_row("aliases") + " FROM aliases ORDER BY name")
                                        .c_str()));
  std::vector<core::AliasRow> rows;
  auto use = select.use();
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return rows;
    if (use.integer(8) == 0) return damaged("aliases", use.text(0));
    core::AliasRow r;
    r.name = use.text(0);
    r.id = use.integer(1);
    HOLDFAST_TRY(r.targets, read_targets(use.bytes(2), r.name));
    HOLDFAST_TRY(r.pending, read_targets(use.bytes(3), r.name));
    r.pending_who = use.text(4);
    r.pending_ms = use.integer(5);
    r.created_ms = use.integer(6);
    r.changed_ms = use.integer(7);
    rows.push_back(std::move(r));
  }
}

Result<std::vector<core::CanaryRow>> SqliteStore::load_canaries() {
  HOLDFAST_TRY(Statement select,
               Statement::prepare(db_.get(), select_canaries("ORDER BY id DESC LIMIT ?").c_str()));
  std::vector<core::CanaryRow> rows;
  auto use = select.use();
  use.bind(static_cast<std::int64_t>(core::kCanaryHistoryMax));
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) break;
    HOLDFAST_TRY(core::CanaryRow row, canary_row(use));
    rows.push_back(std::move(row));
  }
  std::reverse(rows.begin(), rows.end());
  return rows;
}

Result<std::vector<core::AliasHistoryRow>> SqliteStore::alias_history(const std::string& alias,
                                                                      std::int64_t limit) {
  HOLDFAST_TRY(Statement select,
               Statement::prepare(
                   db_.get(), ("SELECT alias, at_ms, who, action, from_targets, to_targets, reason,"
                               " id, " +
                               sound_row("alias_history") +
                               " FROM alias_history WHERE alias=? ORDER BY id DESC LIMIT ?")
                                  .c_str()));
  std::vector<core::AliasHistoryRow> rows;
  auto use = select.use();
  use.bind(alias).bind(limit);
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return rows;
    if (use.integer(8) == 0) return damaged("alias_history", use.text(7));
    rows.push_back({use.text(0), use.integer(1), use.text(2), use.text(3), use.text(4), use.text(5),
                    use.text(6)});
  }
}

Result<std::vector<core::CanaryRow>> SqliteStore::canaries(const std::string& alias,
                                                           std::int64_t limit) {
  HOLDFAST_TRY(Statement select,
               Statement::prepare(
                   db_.get(), select_canaries("WHERE alias=? ORDER BY id DESC LIMIT ?").c_str()));
  std::vector<core::CanaryRow> rows;
  auto use = select.use();
  use.bind(alias).bind(limit);
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return rows;
    HOLDFAST_TRY(core::CanaryRow row, canary_row(use));
    rows.push_back(std::move(row));
  }
}

Result<std::vector<core::CanaryWindowRow>> SqliteStore::canary_windows(const std::string& alias,
                                                                       std::int64_t limit) {
  HOLDFAST_TRY(Statement select,
               Statement::prepare(
                   db_.get(), ("SELECT w.canary, w.window, w.started_ms, w.ended_ms, w.decision,"
                               " w.reason, w.canary_side, w.stable_side, " +
                               sound_row("canary_windows", "w") +
                               " FROM canary_windows w"
                               " JOIN canaries c ON c.id = w.canary WHERE c.alias=?"
                               " ORDER BY w.canary DESC, w.window DESC LIMIT ?")
                                  .c_str()));
  std::vector<core::CanaryWindowRow> rows;
  auto use = select.use();
  use.bind(alias).bind(limit);
  for (;;) {
    HOLDFAST_TRY(const bool more, use.step());
    if (!more) return rows;
    if (use.integer(8) == 0) return damaged("canary_windows", use.text(0) + "/" + use.text(1));
    core::CanaryWindowRow r;
    r.canary = use.integer(0);
    r.window = use.integer(1);
    r.started_ms = use.integer(2);
    r.ended_ms = use.integer(3);
    r.decision = use.text(4);
    r.reason = use.text(5);
    const std::string where = "canary_windows: window " + use.text(1) + " of canary " + use.text(0);
    HOLDFAST_CHECKED(decode_numbers(core::evidence_fields(), use.bytes(6), r.canary_side, where));
    HOLDFAST_CHECKED(decode_numbers(core::evidence_fields(), use.bytes(7), r.stable_side, where));
    rows.push_back(std::move(r));
  }
}

}  // namespace holdfast::store
