#include "control/store/row_checksum.h"

#include <cstring>
#include <map>

#include "shared/base/check.h"

namespace holdfast::store {
namespace {

const std::vector<CheckedTable> kCheckedTables = {
    {"epochs", "epoch", nullptr, {"epoch", "started_ms", "pid", "program"}},
    {"requests",
     "seq || ' (' || id || ')'",
     "seq",
     {"seq",
      "id",
      "tenant",
      "idem_key",
      "body_hash",
      "model",
      "model_sha",
      "state",
      "priority",
      "class",
      "config_version",
      "n",
      "max_tokens",
      "on_disconnect",
      "created_ms",
      "started_ms",
      "finished_ms",
      "queue_deadline_ms",
      "total_deadline_ms",
      "error_code",
      "error",
      "alias",
      "route_key",
      "canary",
      "rerouted_from",
      "api_key"}},
    {"payloads", "seq", "seq", {"seq", "params", "meta", "prompt_text", "crc"}},
    {"choices",
     "seq || '/' || choice",
     "seq",
     {"seq", "choice", "prompt", "prompt_tokens", "next_index", "finish", "error_code", "error",
      "deaths", "deaths_index"}},
    {"attempts",
     "seq || '/' || choice || ' fence ' || fence_epoch || '.' || fence_counter",
     "seq",
     {"seq", "choice", "fence_epoch", "fence_counter", "worker_key", "incarnation", "load_id",
      "start_index", "end_index", "adopted", "started_ms", "ended_ms", "reason"}},
    {"models", "name", nullptr, {"name",     "sha",           "path",         "size",
                                 "mtime_ns", "architecture",  "context",      "slots",
                                 "pages",    "prefill_chunk", "kv_type",      "vocab",
                                 "chat",     "weights_bytes", "kv_bytes",     "scratch_bytes",
                                 "options",  "shape",         "wanted",       "state",
                                 "reason",   "created_ms",    "last_used_ms", "tokenizer_sha",
                                 "output",   "profile"}},
    {"model_blobs", "sha", nullptr, {"sha", "tokenizer", "pieces"}},
    {"loads",
     "load_id",
     nullptr,
     {"load_id", "model", "model_sha", "worker_key", "incarnation", "state", "class", "slots",
      "pages", "page_tokens", "context", "reason", "created_ms", "ready_ms", "ended_ms"}},
    {"log_mark", "id", nullptr, {"database", "synced", "unsummed"}},
    {"reservations", "load_id", nullptr, {"load_id", "worker_key", "bytes"}},
    {"transitions",
     "id",
     nullptr,
     {"subject", "key", "from_state", "to_state", "at_ms", "memory_before", "memory_after",
      "reason"}},
    {"config_versions", "version", nullptr, {"version", "at_ms", "source", "content"}},
    {"flags", "name", nullptr, {"name", "value"}},
    {"secrets", "name", nullptr, {"name", "value"}},
    {"aliases",
     "name",
     nullptr,
     {"name", "id", "targets", "pending", "pending_who", "pending_ms", "created_ms", "changed_ms"}},
    {"alias_history",
     "id",
     nullptr,
     {"alias", "at_ms", "who", "action", "from_targets", "to_targets", "reason"}},
    {"canaries",
     "id",
     nullptr,
     {"id", "alias", "model", "state", "settings", "windows", "passed", "suspect", "started_ms",
      "ended_ms", "who", "reason"}},
    {"canary_windows",
     "canary || '/' || window",
     nullptr,
     {"canary", "window", "started_ms", "ended_ms", "decision", "reason", "canary_side",
      "stable_side"}},
    {"objects",
     "seq || ' (' || kind || ' ' || id || ')'",
     nullptr,
     {"seq", "kind", "id", "owner", "version", "created_ms", "changed_ms", "expires_ms", "bytes",
      "crc"}},
};

std::uint64_t name_of(sqlite3_value* value) {
  if (sqlite3_value_type(value) == SQLITE_INTEGER) {
    return static_cast<std::uint64_t>(sqlite3_value_int64(value));
  }
  const void* text = sqlite3_value_blob(value);
  const auto size = static_cast<std::size_t>(sqlite3_value_bytes(value));
  return static_cast<std::uint64_t>(
      name_hash({static_cast<const char*>(text), text == nullptr ? 0 : size}));
}

std::uint64_t part(const ColumnSeeds& seeds, sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  if (type == SQLITE_INTEGER) return seeds.part(std::int64_t{sqlite3_value_int64(value)});
  if (type == SQLITE_NULL) return seeds.part_null();
  const auto* bytes = static_cast<const char*>(sqlite3_value_blob(value));
  const auto size = static_cast<std::size_t>(sqlite3_value_bytes(value));
  const std::string_view view(bytes, bytes == nullptr ? 0 : size);
  // Other types do not occur: the tables are STRICT. A float is damage, made by a changed byte.
  if (type == SQLITE_FLOAT) return ~seeds.part_text(view);
  return type == SQLITE_BLOB ? seeds.part_blob(view) : seeds.part_text(view);
}

void row_checksum(sqlite3_context* context, int n, sqlite3_value** values) {
  std::uint64_t sum = 0;
  for (int i = 0; i + 1 < n; i += 2) sum ^= part(ColumnSeeds(name_of(values[i])), values[i + 1]);
  sqlite3_result_int64(context, static_cast<std::int64_t>(sum & kSumMask));
}

void checksum_moved(sqlite3_context* context, int n, sqlite3_value** values) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return sqlite3_result_null(context);
  auto sum = static_cast<std::uint64_t>(sqlite3_value_int64(values[0]));
  for (int i = 1; i + 2 < n; i += 3) {
    const ColumnSeeds seeds(name_of(values[i]));
    sum ^= (part(seeds, values[i + 1]) ^ part(seeds, values[i + 2])) & kSumMask;
  }
  sqlite3_result_int64(context, static_cast<std::int64_t>(sum));
}

/// SQL function: the checksum of a whole row, from its columns in the order of the table. Their
/// seeds come with the function.
void table_checksum(sqlite3_context* context, int n, sqlite3_value** values) {
  const auto& seeds = *static_cast<const std::vector<ColumnSeeds>*>(sqlite3_user_data(context));
  std::uint64_t sum = 0;
  for (int i = 0; i < n; ++i) sum ^= part(seeds[static_cast<std::size_t>(i)], values[i]);
  sqlite3_result_int64(context, static_cast<std::int64_t>(sum & kSumMask));
}

std::string table_function(const CheckedTable& table) {
  return std::string(table.name) + "_checksum";
}

constexpr int kHow = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;

Result<void> define_table(sqlite3* db, const CheckedTable& table) {
  auto* seeds = new std::vector<ColumnSeeds>;
  for (const char* column : table.columns) {
    seeds->emplace_back(static_cast<std::uint64_t>(name_hash(column)));
  }
  const int rc = sqlite3_create_function_v2(
      db, table_function(table).c_str(), static_cast<int>(seeds->size()), kHow, seeds,
      &table_checksum, nullptr, nullptr,
      [](void* made) { delete static_cast<std::vector<ColumnSeeds>*>(made); });
  if (rc != SQLITE_OK) return sqlite_error(db, rc, "define checksums");  // unreached: no memory
  return {};
}

}  // namespace

std::span<const CheckedTable> checked_tables() {
  return kCheckedTables;
}

const CheckedTable& checked_table(const char* name) {
  for (const CheckedTable& table : checked_tables()) {
    if (std::strcmp(table.name, name) == 0) return table;
  }
  CHECK_MSG(false, name);
  __builtin_unreachable();
}

std::uint64_t default_part(const CheckedTable& table, std::string_view column) {
  const ColumnSeeds seeds(static_cast<std::uint64_t>(name_hash(column)));
  const std::string_view name = table.name;
  if (name == "choices" && column == "deaths") return seeds.part(0);
  if (name == "choices" && column == "deaths_index") return seeds.part(-1);
  if (name == "choices") return seeds.part_text("");
  CHECK_MSG(name == "attempts", "an INSERT names every column");
  return seeds.part_null();
}

Result<void> define_checksums(sqlite3* db) {
  int rc = sqlite3_create_function_v2(db, "row_checksum", -1, kHow, nullptr, &row_checksum, nullptr,
                                      nullptr, nullptr);
  if (rc == SQLITE_OK) {
    rc = sqlite3_create_function_v2(db, "checksum_moved", -1, kHow, nullptr, &checksum_moved,
                                    nullptr, nullptr, nullptr);
  }
  if (rc != SQLITE_OK) return sqlite_error(db, rc, "define checksums");  // unreached: no memory
  for (const CheckedTable& table : checked_tables()) HOLDFAST_CHECKED(define_table(db, table));
  return {};
}

std::string checked_insert(const char* table, ColumnNames columns, const char* verb,
                           const char* tail) {
  std::map<std::string_view, std::string> values;
  std::string names;
  std::string list;
  for (const char* column : columns) {
    const std::string parameter = "?" + std::to_string(values.size() + 1);
    names.append(column).append(", ");
    list += parameter + ",";
    values[column] = parameter;
  }
  std::string sum;
  for (const char* column : checked_table(table).columns) {
    const auto given = values.find(column);
    sum += (sum.empty() ? "" : ",") + std::to_string(name_hash(column)) + ",";
    CHECK_MSG(given != values.end(), "an INSERT names every column");
    sum += given->second;
  }
  return std::string(verb) + " INTO " + table + "(" + names + "checksum) VALUES (" + list +
         "row_checksum(" + sum + "))" + tail;
}

std::string plain_insert(const char* table, ColumnNames columns) {
  std::string names;
  std::string list;
  for (const char* column : columns) {
    names.append(names.empty() ? "" : ", ").append(column);
    list += list.empty() ? "?" : ",?";
  }
  return std::string("INSERT INTO ") + table + "(" + names + ") VALUES (" + list + ")";
}

std::string where_key(ColumnNames key, std::size_t columns) {
  std::string where;
  for (const char* column : key) {
    where += (where.empty() ? " WHERE " : " AND ") + std::string(column) + "=?" +
             std::to_string(++columns);
  }
  return where;
}

std::string checked_update(const char* table, ColumnNames columns, ColumnNames key) {
  std::string set;
  std::string moved = "checksum";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string name = columns[i];
    const std::string parameter = "?" + std::to_string(i + 1);
    set.append(name).append("=").append(parameter).append(",");
    moved.append(",").append(std::to_string(name_hash(name)));
    moved.append(",").append(name).append(",").append(parameter);
  }
  return std::string("UPDATE ") + table + " SET " + set + "checksum=checksum_moved(" + moved + ")" +
         where_key(key, columns.size());
}

namespace {

/// SQL for the checksum of a table's columns; `prefix` qualifies them in the statement.
std::string sum_of(const CheckedTable& table, const std::string& prefix) {
  std::string columns;
  for (const char* column : table.columns) {
    columns += (columns.empty() ? "" : ",") + prefix + column;
  }
  return table_function(table) + "(" + columns + ")";
}

}  // namespace

std::string sum_unsummed(const CheckedTable& table) {
  return std::string("UPDATE ") + table.name + " SET checksum=" + sum_of(table, "") +
         " WHERE checksum IS NULL";
}

std::string sound_row(const char* table, const char* alias) {
  const std::string prefix = std::string(alias != nullptr ? alias : table) + ".";
  return "(" + prefix + "checksum IS NULL OR " + prefix +
         "checksum = " + sum_of(checked_table(table), prefix) + ")";
}

std::string checked_row(const CheckedTable& table) {
  const std::string sound = "checksum IS " + sum_of(table, "");
  if (table.unsummed_key == nullptr) return "(" + sound + ")";
  return std::string("(CASE WHEN checksum IS NULL THEN ") + table.unsummed_key +
         " <= (SELECT unsummed FROM log_mark) ELSE " + sound + " END)";
}

}  // namespace holdfast::store
