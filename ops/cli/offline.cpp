#include "ops/cli/offline.h"

#include <sqlite3.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "schema_version.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr int kBusyMs = 2'000;
constexpr std::int64_t kListDefault = 50;

struct CloseDb {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Db = std::unique_ptr<sqlite3, CloseDb>;
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

std::string database_path(const Call& call) {
  return call.state_dir + "/control.db";
}

Error sql_error(sqlite3* db, const std::string& what) {
  return {Errc::kStorage, "read control.db: " + what + ": " + sqlite3_errmsg(db)};
}

json column_value(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement, column);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    case SQLITE_TEXT:
      return std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement, column)),
                         static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
    default:
      return nullptr;
  }
}

/// Rows as JSON objects with the columns' names. Arguments are texts or integers.
Result<json> query(sqlite3* db, const char* sql, const std::vector<json>& arguments) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(db, sql, -1, &raw, nullptr) != SQLITE_OK) return sql_error(db, "prepare");
  const Statement statement(raw);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const int at = static_cast<int>(i) + 1;
    if (arguments[i].is_string()) {
      const std::string& text = arguments[i].get_ref<const std::string&>();
      sqlite3_bind_text(raw, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    } else {
      sqlite3_bind_int64(raw, at, arguments[i].get<std::int64_t>());
    }
  }
  json rows = json::array();
  int rc = SQLITE_ROW;
  while ((rc = sqlite3_step(raw)) == SQLITE_ROW) {
    json row = json::object();
    for (int i = 0; i < sqlite3_column_count(raw); ++i) {
      row[sqlite3_column_name(raw, i)] = column_value(raw, i);
    }
    rows.push_back(std::move(row));
  }
  if (rc != SQLITE_DONE) return sql_error(db, "step");
  return rows;
}

Result<Db> open_read_only(const Call& call) {
  sqlite3* raw = nullptr;
  const std::string path = database_path(call);
  const int rc = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  Db db(raw);
  if (rc != SQLITE_OK) return sql_error(raw, "open " + path);
  sqlite3_busy_timeout(raw, kBusyMs);
  HOLDFAST_TRY(const json set, query(raw, "PRAGMA query_only=1", {}));
  HOLDFAST_TRY(const json version, query(raw, "PRAGMA user_version", {}));
  const std::int64_t found = version.at(0).value("user_version", std::int64_t{0});
  if (found > kSchemaVersion) {
    return Error{Errc::kVersionNewer,
                 path + " has version " + std::to_string(found) + ", newer than this program's " +
                     std::to_string(kSchemaVersion) +
                     "; use a newer holdfast, or `db restore` the copy that the upgrade made"};
  }
  return db;
}

Result<json> only_row(Result<json> rows, const std::string& what) {
  if (!rows) return rows.error();
  if (rows.value().empty()) return Error{Errc::kNotFound, what + " is not in the database"};
  return rows.value().at(0);
}

constexpr const char* kRequestColumns =
    "SELECT r.id, r.state, r.model, r.tenant, r.class, r.priority,"
    " (SELECT sum(c.prompt_tokens) FROM choices c WHERE c.seq = r.seq) AS prompt_tokens,"
    " (SELECT sum(c.next_index) FROM choices c WHERE c.seq = r.seq) AS tokens,"
    " (SELECT count(*) FROM attempts a WHERE a.seq = r.seq) AS attempts,"
    " r.max_tokens, r.created_ms, r.started_ms, r.finished_ms, r.error_code, r.error"
    " FROM requests r ";

Result<json> requests_list(sqlite3* db, const json& args) {
  const std::string state = args.value("state", "");
  const std::string sql =
      std::string(kRequestColumns) + "WHERE ?1 = '' OR r.state = ?1 ORDER BY r.seq DESC LIMIT ?2";
  HOLDFAST_TRY(json rows, query(db, sql.c_str(), {state, args.value("limit", kListDefault)}));
  return json{{"requests", std::move(rows)}};
}

Result<json> requests_show(sqlite3* db, const json& args) {
  const std::string id = args.value("id", "");
  const std::string sql = std::string(kRequestColumns) + "WHERE r.id = ?1";
  HOLDFAST_TRY(json row, only_row(query(db, sql.c_str(), {id}), "request " + id));
  HOLDFAST_TRY(
      row["choices"],
      query(db,
            "SELECT choice, prompt, prompt_tokens, next_index, finish, error_code, error, deaths"
            " FROM choices WHERE seq = (SELECT seq FROM requests WHERE id = ?1) ORDER BY choice",
            {id}));
  HOLDFAST_TRY(row["attempts"],
               query(db,
                     "SELECT choice, fence_epoch, fence_counter, worker_key, load_id, start_index,"
                     " end_index, adopted, started_ms, ended_ms, reason FROM attempts"
                     " WHERE seq = (SELECT seq FROM requests WHERE id = ?1)"
                     " ORDER BY choice, fence_epoch, fence_counter",
                     {id}));
  return row;
}

constexpr const char* kModelColumns =
    "SELECT name, state, architecture, context, slots, kv_type, size AS size_bytes, weights_bytes,"
    " kv_bytes, scratch_bytes, chat, sha, path, reason, created_ms FROM models ";

/// The aliases; the database of an older program has none.
Result<json> aliases(sqlite3* db) {
  HOLDFAST_TRY(const json there,
               query(db, "SELECT count(*) AS n FROM sqlite_schema WHERE name = 'aliases'", {}));
  if (there.at(0).value("n", 0) == 0) return json::array();
  return query(db,
               "SELECT name, targets AS stands_for, pending AS waits_for, created_ms, changed_ms"
               " FROM aliases ORDER BY name",
               {});
}

Result<json> models_list(sqlite3* db) {
  HOLDFAST_TRY(json rows, query(db, (std::string(kModelColumns) + "ORDER BY name").c_str(), {}));
  HOLDFAST_TRY(json names, aliases(db));
  json document = {{"models", std::move(rows)}};
  if (!names.empty()) document["aliases"] = std::move(names);
  return document;
}

Result<json> models_show(sqlite3* db, const json& args) {
  const std::string name = args.value("name", "");
  HOLDFAST_TRY(const json alias_rows, aliases(db));
  for (const json& alias : alias_rows) {
    if (alias.value("name", "") == name) return alias;
  }
  const std::string sql = std::string(kModelColumns) + "WHERE name = ?1";
  return only_row(query(db, sql.c_str(), {name}), "model " + name);
}

}  // namespace

/// Takes off the prefixes that public_id in control/gateway/common/render.h adds.
static std::string without_prefix(const std::string& named) {
  for (const std::string_view prefix : {"chatcmpl-", "cmpl-", "embd-", "msg_"}) {
    if (named.starts_with(prefix)) return named.substr(prefix.size());
  }
  return named;
}

Result<std::string> find_request(const Call& call, const std::string& named) {
  const std::string id = without_prefix(named);
  if (!call.elsewhere().empty()) return id;
  const auto db = open_read_only(call);
  if (!db) return id;
  const auto rows =
      query(db->get(),
            "SELECT id, tenant FROM requests WHERE id = ?1 OR idem_key = ?2 ORDER BY id = ?1 "
            "DESC, seq DESC LIMIT 10",
            {id, named});
  if (!rows || rows->empty() || rows->at(0).value("id", "") == id) return id;
  if (rows->size() == 1) return rows->at(0).value("id", "");
  std::string ids;
  for (const json& row : *rows) {
    ids += (ids.empty() ? "" : ", ") + row.value("id", "") + " of " + row.value("tenant", "");
  }
  return Error{Errc::kConflict,
               "several requests have the idempotency key " + named + ", expected an id: " + ids};
}

bool should_read_offline(const Call& call) {
  if (!call.elsewhere().empty()) return false;
  std::error_code failed;
  if (!std::filesystem::exists(database_path(call), failed)) return false;
  return !daemon_listens(call.state_dir);
}

Result<json> read_offline(const Call& call, const std::string& verb, const json& args) {
  HOLDFAST_TRY(const Db db, open_read_only(call));
  if (verb == "requests.list") return requests_list(db.get(), args);
  if (verb == "requests.show") return requests_show(db.get(), args);
  if (verb == "models.list") return models_list(db.get());
  CHECK(verb == "models.show");
  return models_show(db.get(), args);
}

int read_and_print(const Call& call, const std::string& verb, const json& args,
                   RenderOptions options) {
  if (!should_read_offline(call)) return operate_and_print(call, verb, args, std::move(options));
  const auto document = read_offline(call, verb, args);
  if (!document) return report_error(call, document.error());
  std::fprintf(stderr, "holdfast: no daemon runs; read from %s\n", database_path(call).c_str());
  print_document(call, document.value(), std::move(options));
  return kExitDone;
}

}  // namespace holdfast::cli
