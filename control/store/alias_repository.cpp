#include "control/store/alias_repository.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/core/aliases.h"
#include "control/store/select.h"
#include "control/store/write_statements.h"
#include "shared/base/json_text.h"

namespace holdfast::store {
namespace {

using nlohmann::json;

constexpr Columns kAliasColumns{"name",        "id",         "targets",    "pending",
                                "pending_who", "pending_ms", "created_ms", "changed_ms"};
constexpr Columns kNewHistoryColumns{"alias",        "at_ms",      "who",   "action",
                                     "from_targets", "to_targets", "reason"};
constexpr Columns kHistoryColumns{"id",     "alias",        "at_ms",      "who",
                                  "action", "from_targets", "to_targets", "reason"};
constexpr Columns kCanaryColumns{"id",         "alias",    "model",  "state",
                                 "settings",   "windows",  "passed", "suspect",
                                 "started_ms", "ended_ms", "who",    "reason"};
constexpr Columns kWindowColumns{"canary",   "window", "started_ms",  "ended_ms",
                                 "decision", "reason", "canary_side", "stable_side"};

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

Error damaged(const char* table, const std::string& key) {
  return Error{Errc::kCorrupt, std::string(table) + ": row " + key +
                                   " is damaged: its checksum differs; see db check"};
}

Result<core::AliasRow> alias_row(const CheckedRows<kAliasColumns>& rows) {
  if (!rows.is_sound()) return damaged("aliases", rows.text("name"));
  core::AliasRow r;
  r.name = rows.text("name");
  r.id = rows.integer("id");
  HOLDFAST_TRY(r.targets, read_targets(rows.bytes("targets"), r.name));
  HOLDFAST_TRY(r.pending, read_targets(rows.bytes("pending"), r.name));
  r.pending_who = rows.text("pending_who");
  r.pending_ms = rows.integer("pending_ms");
  r.created_ms = rows.integer("created_ms");
  r.changed_ms = rows.integer("changed_ms");
  return r;
}

Result<core::CanaryRow> canary_row(const CheckedRows<kCanaryColumns>& rows) {
  if (!rows.is_sound()) return damaged("canaries", rows.text("id"));
  core::CanaryRow r;
  r.id = rows.integer("id");
  r.alias = rows.text("alias");
  r.model = rows.text("model");
  r.state = core::canary_state_from_name(rows.bytes("state"));
  HOLDFAST_CHECKED(decode_numbers(core::canary_fields(), rows.bytes("settings"), r.settings,
                                  "canaries: settings of canary " + rows.text("id")));
  r.windows = rows.integer("windows");
  r.passed = rows.integer("passed");
  r.suspect = rows.flag("suspect");
  r.started_ms = rows.integer("started_ms");
  r.ended_ms = rows.integer("ended_ms");
  r.who = rows.text("who");
  r.reason = rows.text("reason");
  return r;
}

Result<core::AliasHistoryRow> history_row(const CheckedRows<kHistoryColumns>& rows) {
  if (!rows.is_sound()) return damaged("alias_history", rows.text("id"));
  core::AliasHistoryRow r;
  r.alias = rows.text("alias");
  r.at_ms = rows.integer("at_ms");
  r.who = rows.text("who");
  r.action = rows.text("action");
  r.from = rows.text("from_targets");
  r.to = rows.text("to_targets");
  r.reason = rows.text("reason");
  return r;
}

Result<core::CanaryWindowRow> window_row(const CheckedRows<kWindowColumns>& rows) {
  const std::string canary = rows.text("canary");
  const std::string window = rows.text("window");
  if (!rows.is_sound()) return damaged("canary_windows", canary + "/" + window);
  core::CanaryWindowRow r;
  r.canary = rows.integer("canary");
  r.window = rows.integer("window");
  r.started_ms = rows.integer("started_ms");
  r.ended_ms = rows.integer("ended_ms");
  r.decision = rows.text("decision");
  r.reason = rows.text("reason");
  const std::string where = "canary_windows: window " + window + " of canary " + canary;
  const auto& fields = core::evidence_fields();
  HOLDFAST_CHECKED(decode_numbers(fields, rows.bytes("canary_side"), r.canary_side, where));
  HOLDFAST_CHECKED(decode_numbers(fields, rows.bytes("stable_side"), r.stable_side, where));
  return r;
}

/// Reads all rows of a SELECT by a function that makes one of them.
template <class Row, class RowsOfTable>
Result<std::vector<Row>> read_all(RowsOfTable& rows, Result<Row> (*read)(const RowsOfTable&)) {
  std::vector<Row> all;
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) return all;
    HOLDFAST_TRY(Row row, read(rows));
    all.push_back(std::move(row));
  }
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

Result<void> AliasRepository::write(const core::PutAlias& c) {
  Insert<kAliasColumns> put;
  HOLDFAST_CHECKED(put.prepare(connection_.get(), "aliases", "INSERT", kAliasUpsert));
  const core::AliasRow& r = c.row;
  const std::string targets = core::targets_text(r.targets);
  const std::string pending = core::targets_text(r.pending);
  auto values = put.values();
  values.set("name", r.name).set("id", r.id).set("targets", targets).set("pending", pending);
  values.set("pending_who", r.pending_who).set("pending_ms", r.pending_ms);
  return values.set("created_ms", r.created_ms).set("changed_ms", r.changed_ms).run();
}

Result<void> AliasRepository::write(const core::DeleteAlias& c) {
  HOLDFAST_TRY(Statement remove,
               Statement::prepare(connection_.get(), "DELETE FROM aliases WHERE name=?"));
  return remove.use().bind(c.name).run();
}

Result<void> AliasRepository::write(const core::InsertAliasHistory& c) {
  Insert<kNewHistoryColumns> insert;
  HOLDFAST_CHECKED(insert.prepare(connection_.get(), "alias_history"));
  const core::AliasHistoryRow& r = c.row;
  auto values = insert.values();
  values.set("alias", r.alias).set("at_ms", r.at_ms).set("who", r.who).set("action", r.action);
  return values.set("from_targets", r.from).set("to_targets", r.to).set("reason", r.reason).run();
}

Result<void> AliasRepository::write(const core::PutCanary& c) {
  Insert<kCanaryColumns> put;
  HOLDFAST_CHECKED(put.prepare(connection_.get(), "canaries", "INSERT", kCanaryUpsert));
  const core::CanaryRow& r = c.row;
  const std::string settings = encode_numbers(core::canary_fields(), r.settings);
  auto values = put.values();
  values.set("id", r.id).set("alias", r.alias).set("model", r.model);
  values.set("state", core::canary_state_name(r.state)).set("settings", settings);
  values.set("windows", r.windows).set("passed", r.passed).set("suspect", r.suspect);
  values.set("started_ms", r.started_ms).set("ended_ms", r.ended_ms);
  return values.set("who", r.who).set("reason", r.reason).run();
}

Result<void> AliasRepository::write(const core::InsertCanaryWindow& c) {
  Insert<kWindowColumns> insert;
  HOLDFAST_CHECKED(insert.prepare(connection_.get(), "canary_windows"));
  const core::CanaryWindowRow& r = c.row;
  const std::string canary = encode_numbers(core::evidence_fields(), r.canary_side);
  const std::string stable = encode_numbers(core::evidence_fields(), r.stable_side);
  auto values = insert.values();
  values.set("canary", r.canary).set("window", r.window).set("started_ms", r.started_ms);
  values.set("ended_ms", r.ended_ms).set("decision", r.decision).set("reason", r.reason);
  return values.set("canary_side", canary).set("stable_side", stable).run();
}

Result<std::vector<core::AliasRow>> AliasRepository::load_aliases() {
  CheckedSelect<kAliasColumns> select;
  HOLDFAST_CHECKED(select.prepare(connection_.get(), "aliases", "ORDER BY name"));
  auto rows = select.rows();
  return read_all(rows, &alias_row);
}

Result<std::vector<core::CanaryRow>> AliasRepository::load_canaries() {
  CheckedSelect<kCanaryColumns> select;
  HOLDFAST_CHECKED(select.prepare(connection_.get(), "canaries", "ORDER BY id DESC LIMIT ?"));
  auto rows = select.rows();
  rows.bind(static_cast<std::int64_t>(core::kCanaryHistoryMax));
  auto canaries = read_all(rows, &canary_row);
  if (canaries) std::reverse(canaries->begin(), canaries->end());
  return canaries;
}

Result<std::vector<core::AliasHistoryRow>> AliasRepository::history(const std::string& alias,
                                                                    std::int64_t limit) {
  CheckedSelect<kHistoryColumns> select;
  HOLDFAST_CHECKED(
      select.prepare(connection_.get(), "alias_history", "WHERE alias=? ORDER BY id DESC LIMIT ?"));
  auto rows = select.rows();
  rows.bind(alias).bind(limit);
  return read_all(rows, &history_row);
}

Result<std::vector<core::CanaryRow>> AliasRepository::canaries(const std::string& alias,
                                                               std::int64_t limit) {
  CheckedSelect<kCanaryColumns> select;
  HOLDFAST_CHECKED(
      select.prepare(connection_.get(), "canaries", "WHERE alias=? ORDER BY id DESC LIMIT ?"));
  auto rows = select.rows();
  rows.bind(alias).bind(limit);
  return read_all(rows, &canary_row);
}

Result<std::vector<core::CanaryWindowRow>> AliasRepository::canary_windows(const std::string& alias,
                                                                           std::int64_t limit) {
  CheckedSelect<kWindowColumns> select;
  HOLDFAST_CHECKED(
      select.prepare_as(connection_.get(), "SELECT " + kWindowColumns.list("w.") + ", " +
                                               sound_row("canary_windows", "w") +
                                               " AS sound FROM canary_windows w"
                                               " JOIN canaries c ON c.id = w.canary WHERE c.alias=?"
                                               " ORDER BY w.canary DESC, w.window DESC LIMIT ?"));
  auto rows = select.rows();
  rows.bind(alias).bind(limit);
  return read_all(rows, &window_row);
}

}  // namespace holdfast::store
