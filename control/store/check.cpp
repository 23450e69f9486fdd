#include "control/store/check.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "control/store/row_checksum.h"
#include "control/store/select.h"
#include "control/store/store.h"
#include "control/store/write_statements.h"

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
    static constexpr Columns kCounts{"rows", "summed", "wrong"};
    const std::string sql =
        std::string("SELECT count(*) AS rows, count(checksum) AS summed, min(CASE WHEN ") +
        checked_row(table) + " THEN NULL ELSE " + table.key + " END) AS wrong FROM " + table.name;
    const auto look = [&](const Rows<kCounts>& row) -> Result<void> {
      report_.rows += row.integer("summed");
      report_.unsummed += row.integer("rows") - row.integer("summed");
      if (row.is_null("wrong")) return {};
      return damaged(path_, std::string("table ") + table.name + ", row " + row.text("wrong") +
                                ": the checksum differs");
    };
    return each<kCounts>(table.name, sql, look);
  }

  /// Calls `look` for each row of the statement.
  template <const auto& kColumns, class Look>
  Result<void> each(const char* table, const std::string& sql, Look look) {
    Select<kColumns> select;
    HOLDFAST_CHECKED(select.prepare(db_, sql));
    auto rows = select.rows();
    for (;;) {
      const Result<bool> more = rows.step();
      if (!more) return in_table(table, more.error());
      if (!*more) return {};
      HOLDFAST_CHECKED(look(rows));
    }
  }

  Result<void> chunks() {
    static constexpr Columns kChunk{"seq", "choice", "start", "ids", "extra", "crc"};
    const auto look = [this](const Rows<kChunk>& row) -> Result<void> {
      ++report_.chunks;
      const std::uint32_t sum = crc32c(row.bytes("extra"), crc32c(row.bytes("ids")));
      if (sum == static_cast<std::uint32_t>(row.integer("crc"))) return {};
      return damaged(path_, "table chunks: tokens of request row " + row.text("seq") + ", choice " +
                                row.text("choice") + ", from index " + row.text("start") +
                                ": the checksum differs");
    };
    return each<kChunk>("chunks", "SELECT seq, choice, start, ids, extra, crc FROM chunks", look);
  }

  Result<void> payloads() {
    static constexpr Columns kPayload{"seq", "prompts", "crc"};
    const auto look = [this](const Rows<kPayload>& row) -> Result<void> {
      ++report_.payloads;
      if (crc32c(row.bytes("prompts")) == static_cast<std::uint32_t>(row.integer("crc"))) return {};
      const std::string seq = row.text("seq");
      return damaged(path_, "table payloads, row " + seq + ": prompts of request row " + seq +
                                ": the checksum differs");
    };
    return each<kPayload>("payloads", "SELECT seq, prompts, crc FROM payloads", look);
  }

  /// Checks that the tokens of each choice are all there. A chunk's key has its choice and start,
  /// so a chunk with a changed key is missing at its place: the lengths and starts of the choice's
  /// chunks do not add up any more.
  Result<void> all_tokens() {
    static constexpr Columns kChoice{"seq", "choice"};
    constexpr const char* kSql =
        "SELECT c.seq AS seq, c.choice AS choice FROM choices c LEFT JOIN (SELECT seq, choice,"
        " sum(length(ids) / 4) AS n, sum((length(ids) / 4) * (2 * start + length(ids) / 4 - 1)) AS"
        " twice FROM chunks GROUP BY seq, choice) t ON t.seq = c.seq AND t.choice = c.choice"
        " WHERE coalesce(t.n, 0) < c.next_index OR"
        " (t.n = c.next_index AND t.twice <> c.next_index * (c.next_index - 1)) LIMIT 1";
    return each<kChoice>("chunks", kSql, [this](const Rows<kChoice>& row) -> Result<void> {
      return damaged(path_, "table chunks, request row " + row.text("seq") + ", choice " +
                                row.text("choice") + ": its tokens are not those that it counts");
    });
  }

  Result<void> objects() {
    HOLDFAST_CHECKED(object_bodies());
    HOLDFAST_CHECKED(object_parts());
    return object_contents();
  }

  Result<void> object_bodies() {
    static constexpr Columns kObject{"seq", "kind", "id", "body", "crc"};
    const auto look = [this](const Rows<kObject>& row) -> Result<void> {
      ++report_.objects;
      if (crc32c(row.bytes("body")) == static_cast<std::uint32_t>(row.integer("crc"))) return {};
      return damaged(path_, "table objects, row " + row.text("seq") + " (" + row.text("kind") +
                                " " + row.text("id") + "): the checksum of its body differs");
    };
    return each<kObject>("objects", "SELECT seq, kind, id, body, crc FROM objects", look);
  }

  Result<void> object_parts() {
    static constexpr Columns kPart{"seq", "at", "data", "crc"};
    std::int64_t seq = -1;
    std::int64_t next = 0;
    const auto look = [&](const Rows<kPart>& row) -> Result<void> {
      ++report_.object_parts;
      if (row.integer("seq") != std::exchange(seq, row.integer("seq"))) next = 0;
      const std::string where =
          "table object_parts, object row " + row.text("seq") + ", from byte " + row.text("at");
      if (crc32c(row.bytes("data")) != static_cast<std::uint32_t>(row.integer("crc"))) {
        return damaged(path_, where + ": the checksum differs");
      }
      if (row.integer("at") != next)
        return damaged(path_, where + ": bytes before it are not there");
      next += static_cast<std::int64_t>(row.bytes("data").size());
      return {};
    };
    return each<kPart>("object_parts",
                       "SELECT seq, at, data, crc FROM object_parts ORDER BY seq, at", look);
  }

  /// Checks that each object has all its parts, and each part its object.
  Result<void> object_contents() {
    static constexpr Columns kObject{"seq", "kind", "id"};
    constexpr const char* kWhole =
        "SELECT o.seq AS seq, o.kind AS kind, o.id AS id FROM objects o LEFT JOIN"
        " (SELECT seq, sum(length(data)) AS n"
        " FROM object_parts GROUP BY seq) p USING (seq) WHERE coalesce(p.n, 0) <> o.bytes"
        " UNION ALL SELECT seq, 'no object has it', '' FROM object_parts WHERE seq NOT IN"
        " (SELECT seq FROM objects) LIMIT 1";
    return each<kObject>("object_parts", kWhole, [this](const Rows<kObject>& row) -> Result<void> {
      return damaged(path_, "table object_parts, object row " + row.text("seq") + " (" +
                                row.text("kind") + " " + row.text("id") +
                                "): its content is not all there");
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
  static constexpr Columns kUnsummed{"unsummed"};
  Update<kUnsummed, kNoColumns> update;
  HOLDFAST_CHECKED(update.prepare(db.get(), "log_mark"));
  HOLDFAST_CHECKED(update.values().set("unsummed", 0).run());
  HOLDFAST_CHECKED(exec(db.get(), "COMMIT"));
  return rows;
}

}  // namespace holdfast::store
