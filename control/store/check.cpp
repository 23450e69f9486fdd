#include "control/store/check.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "control/store/row_checksum.h"
#include "control/store/store.h"

namespace holdfast::store {
namespace {

constexpr std::int64_t kSchemaObjects = 5;  // first schema version that has them

Error damaged(const std::string& path, const std::string& what) {
  return Error{Errc::kCorrupt, "check " + path + ": " + what};
}

class Check {
 public:
  Check(sqlite3* db, const std::string& path) : db_(db), path_(path) {}

  Result<CheckReport> run() {
    HOLDFAST_CHECKED(identity());
    HOLDFAST_TRY(report_.requests, query_int(db_, "SELECT count(*) FROM requests"));
    HOLDFAST_TRY(const std::int64_t summed,
                 query_int(db_, "SELECT count(*) FROM sqlite_schema WHERE name='log_mark'"));
    HOLDFAST_CHECKED(chunks());
    HOLDFAST_CHECKED(payloads());
    if (summed != 0) {
      for (const CheckedTable& table : checked_tables()) HOLDFAST_CHECKED(rows(table));
    }
    HOLDFAST_CHECKED(all_tokens());
    if (report_.schema >= kSchemaObjects) HOLDFAST_CHECKED(objects());
    HOLDFAST_CHECKED(structure());
    return report_;
  }

 private:
  Result<void> identity() {
    HOLDFAST_TRY(const std::int64_t id, query_int(db_, "PRAGMA application_id"));
    if (id != kApplicationId) return damaged(path_, "it is not a database of this program");
    HOLDFAST_TRY(report_.schema, query_int(db_, "PRAGMA user_version"));
    if (report_.schema < 0) {
      return damaged(path_, "its schema version is " + std::to_string(report_.schema));
    }
    if (report_.schema > schema_version()) {
      return Error{Errc::kVersionNewer, "check " + path_ + ": made by a newer program (schema " +
                                            std::to_string(report_.schema) + ", this one knows " +
                                            std::to_string(schema_version()) + ")"};
    }
    return {};
  }

  /// Adds the table to an error of SQLite that ended a walk.
  Error in_table(const char* table, const Error& error) const {
    return Error{error.code, "check " + path_ + ": table " + table + ": " + error.what};
  }

  Result<void> rows(const CheckedTable& table) {
    const std::string sql = std::string("SELECT count(*), count(checksum), min(CASE WHEN ") +
                            checked_row(table) + " THEN NULL ELSE " + table.key + " END) FROM " +
                            table.name;
    HOLDFAST_TRY(Statement select, Statement::prepare(db_, sql.c_str()));
    auto use = select.use();
    const Result<bool> read = use.step();
    if (!read) return in_table(table.name, read.error());
    report_.rows += use.integer(1);
    report_.unsummed += use.integer(0) - use.integer(1);
    if (use.is_null(2)) return {};
    return damaged(path_, std::string("table ") + table.name + ", row " + use.text(2) +
                              ": the checksum differs");
  }

  /// Calls `look` for each row of the statement.
  template <class Look>
  Result<void> each(const char* table, const std::string& sql, Look look) {
    HOLDFAST_TRY(Statement select, Statement::prepare(db_, sql.c_str()));
    auto use = select.use();
    for (;;) {
      const Result<bool> more = use.step();
      if (!more) return in_table(table, more.error());
      if (!*more) return {};
      HOLDFAST_CHECKED(look(use));
    }
  }

  Result<void> chunks() {
    const auto look = [this](const Statement::Use& use) -> Result<void> {
      ++report_.chunks;
      const std::uint32_t sum = crc32c(use.bytes(4), crc32c(use.bytes(3)));
      if (sum == static_cast<std::uint32_t>(use.integer(5))) return {};
      return damaged(path_, "table chunks: tokens of request row " + use.text(0) + ", choice " +
                                use.text(1) + ", from index " + use.text(2) +
                                ": the checksum differs");
    };
    return each("chunks", "SELECT seq, choice, start, ids, extra, crc FROM chunks", look);
  }

  Result<void> payloads() {
    const auto look = [this](const Statement::Use& use) -> Result<void> {
      ++report_.payloads;
      if (crc32c(use.bytes(1)) == static_cast<std::uint32_t>(use.integer(2))) return {};
      return damaged(path_, "table payloads, row " + use.text(0) + ": prompts of request row " +
                                use.text(0) + ": the checksum differs");
    };
    return each("payloads", "SELECT seq, prompts, crc FROM payloads", look);
  }

  /// Checks that the tokens of each choice are all there. A chunk's key has its choice and start,
  /// so a chunk with a changed key is missing at its place: the lengths and starts of the choice's
  /// chunks do not add up any more.
  Result<void> all_tokens() {
    constexpr const char* kSql =
        "SELECT c.seq, c.choice FROM choices c LEFT JOIN (SELECT seq, choice,"
        " sum(length(ids) / 4) AS n, sum((length(ids) / 4) * (2 * start + length(ids) / 4 - 1)) AS"
        " twice FROM chunks GROUP BY seq, choice) t ON t.seq = c.seq AND t.choice = c.choice"
        " WHERE coalesce(t.n, 0) < c.next_index OR"
        " (t.n = c.next_index AND t.twice <> c.next_index * (c.next_index - 1)) LIMIT 1";
    return each("chunks", kSql, [this](const Statement::Use& use) -> Result<void> {
      return damaged(path_, "table chunks, request row " + use.text(0) + ", choice " + use.text(1) +
                                ": its tokens are not those that it counts");
    });
  }

  Result<void> objects() {
    const auto body = [this](const Statement::Use& use) -> Result<void> {
      ++report_.objects;
      if (crc32c(use.bytes(3)) == static_cast<std::uint32_t>(use.integer(4))) return {};
      return damaged(path_, "table objects, row " + use.text(0) + " (" + use.text(1) + " " +
                                use.text(2) + "): the checksum of its body differs");
    };
    HOLDFAST_CHECKED(each("objects", "SELECT seq, kind, id, body, crc FROM objects", body));
    std::int64_t seq = -1;
    std::int64_t next = 0;
    const auto part = [&](const Statement::Use& use) -> Result<void> {
      ++report_.object_parts;
      if (use.integer(0) != std::exchange(seq, use.integer(0))) next = 0;
      const std::string where =
          "table object_parts, object row " + use.text(0) + ", from byte " + use.text(1);
      if (crc32c(use.bytes(2)) != static_cast<std::uint32_t>(use.integer(3))) {
        return damaged(path_, where + ": the checksum differs");
      }
      if (use.integer(1) != next) return damaged(path_, where + ": bytes before it are not there");
      next += static_cast<std::int64_t>(use.bytes(2).size());
      return {};
    };
    HOLDFAST_CHECKED(
        each("object_parts", "SELECT seq, at, data, crc FROM object_parts ORDER BY seq, at", part));
    constexpr const char* kWhole =
        "SELECT o.seq, o.kind, o.id FROM objects o LEFT JOIN (SELECT seq, sum(length(data)) AS n"
        " FROM object_parts GROUP BY seq) p USING (seq) WHERE coalesce(p.n, 0) <> o.bytes"
        " UNION ALL SELECT seq, 'no object has it', '' FROM object_parts WHERE seq NOT IN"
        " (SELECT seq FROM objects) LIMIT 1";
    return each("object_parts", kWhole, [this](const Statement::Use& use) -> Result<void> {
      return damaged(path_, "table object_parts, object row " + use.text(0) + " (" + use.text(1) +
                                " " + use.text(2) + "): its content is not all there");
    });
  }

  Result<void> structure() {
    HOLDFAST_TRY(const std::string whole, query_text(db_, "PRAGMA integrity_check(1)"));
    if (whole != "ok") return damaged(path_, whole);
    HOLDFAST_TRY(const std::string dangling, query_text(db_, "PRAGMA foreign_key_check"));
    if (!dangling.empty()) {
      return damaged(path_, "rows of " + dangling + " refer to rows not there");
    }
    return {};
  }

  sqlite3* db_;
  const std::string& path_;
  CheckReport report_;
};

}  // namespace

Result<Db> open_still(const std::string& path, int flags) {
  if (access(path.c_str(), R_OK) != 0) {
    return Error{Errc::kIo, "open " + path + ": " + std::strerror(errno)};
  }
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(path.c_str(), &raw,
                                 flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Db db(raw);
  if (rc != SQLITE_OK) return sqlite_error(raw, rc, "open " + path);
  HOLDFAST_CHECKED(define_checksums(raw));
  return db;
}

Result<CheckReport> check_file(const std::string& path) {
  HOLDFAST_TRY(const Db db, open_still(path, SQLITE_OPEN_READONLY));
  return Check(db.get(), path).run();
}

Result<std::int64_t> sum_old_rows(const std::string& path) {
  HOLDFAST_TRY(const Db db, open_still(path, SQLITE_OPEN_READWRITE));
  HOLDFAST_TRY(const std::int64_t version, query_int(db.get(), "PRAGMA user_version"));
  if (version != schema_version()) {
    return Error{Errc::kConflict, "sum rows of " + path + ": its schema is " +
                                      std::to_string(version) + ", this program's is " +
                                      std::to_string(schema_version()) + "; start it once before"};
  }
  HOLDFAST_CHECKED(exec(db.get(), "BEGIN IMMEDIATE"));
  std::int64_t rows = 0;
  for (const CheckedTable& table : checked_tables()) {
    HOLDFAST_CHECKED(exec(db.get(), sum_unsummed(table).c_str()));
    rows += sqlite3_changes(db.get());
  }
  HOLDFAST_TRY(Statement update,
               Statement::prepare(db.get(), checked_update("log_mark", "unsummed", "").c_str()));
  HOLDFAST_CHECKED(update.use().bind(std::int64_t{0}).run());
  HOLDFAST_CHECKED(exec(db.get(), "COMMIT"));
  return rows;
}

}  // namespace holdfast::store
