#include "tests/simulation/lib/stored_rows.h"

#include <sqlite3.h>

#include <cstring>
#include <functional>
#include <map>

namespace holdfast::simulation {
namespace {

using Row = std::function<void(sqlite3_stmt*)>;

std::string text(sqlite3_stmt* s, int column) {
  const unsigned char* bytes = sqlite3_column_text(s, column);
  return bytes == nullptr ? std::string() : reinterpret_cast<const char*>(bytes);
}

/// Runs a query; returns SQLite's words if the database cannot be read.
std::string query(sqlite3* db, const char* sql, const Row& row) {
  sqlite3_stmt* s = nullptr;
  int rc = sqlite3_prepare_v2(db, sql, -1, &s, nullptr);
  while (rc == SQLITE_OK || rc == SQLITE_ROW) {
    rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) row(s);
  }
  sqlite3_finalize(s);
  return rc == SQLITE_DONE ? std::string() : std::string(sql) + ": " + sqlite3_errmsg(db);
}

std::vector<wire::TokenId> ids_of(sqlite3_stmt* s, int column) {
  std::vector<wire::TokenId> ids(static_cast<std::size_t>(sqlite3_column_bytes(s, column)) / 4);
  if (!ids.empty()) std::memcpy(ids.data(), sqlite3_column_blob(s, column), ids.size() * 4);
  return ids;
}

void read_all(sqlite3* db, StoredRows& stored) {
  const auto run = [&](const char* sql, const Row& row) {
    if (stored.trouble.empty()) stored.trouble = query(db, sql, row);
  };
  run("PRAGMA integrity_check", [&](sqlite3_stmt* s) {
    if (text(s, 0) != "ok") stored.trouble = "integrity_check: " + text(s, 0);
  });
  run("SELECT count(*) FROM sqlite_schema WHERE name = 'requests'",
      [&](sqlite3_stmt* s) { stored.has_tables = sqlite3_column_int(s, 0) > 0; });
  if (!stored.has_tables || !stored.trouble.empty()) return;
  run("SELECT value FROM flags WHERE name = 'queue.paused'",
      [&](sqlite3_stmt* s) { stored.paused = text(s, 0) == "1"; });
  std::map<std::int64_t, std::size_t> by_seq;
  run("SELECT seq, id, tenant, idem_key, state, class, started_ms, model FROM requests",
      [&](sqlite3_stmt* s) {
        by_seq[sqlite3_column_int64(s, 0)] = stored.requests.size();
        stored.requests.push_back({text(s, 1),
                                   text(s, 2),
                                   text(s, 3),
                                   text(s, 4),
                                   text(s, 5),
                                   text(s, 7),
                                   sqlite3_column_int64(s, 6) > 0,
                                   {}});
      });
  const auto choice_of = [&](sqlite3_stmt* s) -> StoredRows::Choice* {
    const auto it = by_seq.find(sqlite3_column_int64(s, 0));
    if (it == by_seq.end()) {
      stored.trouble = "a row of a request that does not exist";
      return nullptr;
    }
    auto& choices = stored.requests[it->second].choices;
    const auto c = static_cast<std::size_t>(sqlite3_column_int(s, 1));
    if (c >= choices.size()) choices.resize(c + 1);
    return &choices[c];
  };
  run("SELECT seq, choice, next_index, finish, deaths FROM choices", [&](sqlite3_stmt* s) {
    if (StoredRows::Choice* choice = choice_of(s)) {
      choice->next_index = sqlite3_column_int64(s, 2);
      choice->finish = text(s, 3);
      choice->deaths = sqlite3_column_int64(s, 4);
    }
  });
  run("SELECT seq, choice, start, ids FROM chunks ORDER BY seq, choice, start",
      [&](sqlite3_stmt* s) {
        if (StoredRows::Choice* choice = choice_of(s)) {
          choice->chunks.emplace_back(sqlite3_column_int64(s, 2), ids_of(s, 3));
        }
      });
  run("SELECT seq, choice, count(*) FROM attempts WHERE ended_ms IS NULL GROUP BY seq, choice",
      [&](sqlite3_stmt* s) {
        if (StoredRows::Choice* choice = choice_of(s)) {
          choice->open_attempts = sqlite3_column_int64(s, 2);
        }
      });
  bool has_canaries = false;  // a start may have died between two migrations
  run("SELECT count(*) FROM sqlite_schema WHERE name = 'canaries'",
      [&](sqlite3_stmt* s) { has_canaries = sqlite3_column_int(s, 0) > 0; });
  if (!has_canaries) return;
  run("SELECT id, state, (SELECT count(*) FROM canary_windows w WHERE w.canary = c.id)"
      " FROM canaries c",
      [&](sqlite3_stmt* s) {
        stored.canaries.push_back(
            {sqlite3_column_int64(s, 0), text(s, 1), sqlite3_column_int64(s, 2)});
      });
}

}  // namespace

StoredRows read_rows(const char* vfs, const std::string& path) {
  StoredRows stored;
  sqlite3* db = nullptr;
  if (sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, vfs) == SQLITE_OK) {
    int on = 0;
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, &on);
    read_all(db, stored);
  } else {
    stored.trouble = std::string("open: ") + sqlite3_errmsg(db);
  }
  sqlite3_close_v2(db);
  return stored;
}

}  // namespace holdfast::simulation
