#include "control/store/sqlite.h"

#include <cerrno>
#include <cstdlib>

namespace holdfast::store {
namespace {

/// Returns true for a full disk. SQLite has a code of its own only for ENOSPC of a write; a file at
/// its size limit, a quota, and no space for the index of the log are full disks too.
bool is_full(sqlite3* db, int rc) {
  if ((rc & 0xff) != SQLITE_IOERR || db == nullptr) return false;
  if (rc != SQLITE_IOERR_WRITE && rc != SQLITE_IOERR_SHMSIZE && rc != SQLITE_IOERR_SHMOPEN &&
      rc != SQLITE_IOERR_SHMMAP && rc != SQLITE_IOERR_TRUNCATE) {
    return false;
  }
  const int why = sqlite3_system_errno(db);
  return why == ENOSPC || why == EDQUOT || why == EFBIG;
}

}  // namespace

Error sqlite_error(sqlite3* db, int rc, std::string_view what) {
  Errc code = Errc::kStorage;
  if (is_full(db, rc)) {
    return Error{Errc::kDiskFull, std::string(what) +
                                      ": no room: the disk or quota is full, or the file is at its "
                                      "size limit; free some space (SQLite code " +
                                      std::to_string(rc) + ")"};
  }
  switch (rc & 0xff) {
    case SQLITE_FULL:
      code = Errc::kDiskFull;
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      code = Errc::kCorrupt;
      break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      code = Errc::kConflict;
      break;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      code = Errc::kIo;
      break;
    default:
      break;
  }
  const char* words = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
  return Error{code,
               std::string(what) + ": " + words + " (SQLite code " + std::to_string(rc) + ")"};
}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(db_, other.db_);
  std::swap(stmt_, other.stmt_);
  return *this;
}

Result<Statement> Statement::prepare(sqlite3* db, const char* sql) {
  Statement s;
  s.db_ = db;
  const int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s.stmt_, nullptr);
  if (rc != SQLITE_OK) return sqlite_error(db, rc, std::string("prepare ") + sql);
  return s;
}

Statement::Use& Statement::Use::bind_at(int parameter, std::int64_t value) {
  CHECK(sqlite3_bind_int64(stmt_, parameter, value) == SQLITE_OK);
  return *this;
}

Statement::Use& Statement::Use::bind_at(int parameter, std::string_view text) {
  // A null pointer would bind NULL; an empty text is a text.
  const char* data = text.data() != nullptr ? text.data() : "";
  CHECK(sqlite3_bind_text64(stmt_, parameter, data, text.size(), SQLITE_STATIC, SQLITE_UTF8) ==
        SQLITE_OK);
  return *this;
}

Statement::Use& Statement::Use::bind_blob_at(int parameter, std::string_view bytes) {
  const char* data = bytes.data() != nullptr ? bytes.data() : "";
  CHECK(sqlite3_bind_blob64(stmt_, parameter, data, bytes.size(), SQLITE_STATIC) == SQLITE_OK);
  return *this;
}

Statement::Use& Statement::Use::bind_null_at(int parameter) {
  CHECK(sqlite3_bind_null(stmt_, parameter) == SQLITE_OK);
  return *this;
}

Result<bool> Statement::Use::step() {
  const int rc = sqlite3_step(stmt_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return sqlite_error(db_, rc, std::string("run ") + sqlite3_sql(stmt_));
}

Result<void> Statement::Use::run() {
  HOLDFAST_TRY(const bool row, step());
  CHECK_MSG(!row, "a statement that changes rows returns none");
  return {};
}

std::string_view column_bytes(sqlite3_stmt* statement, int column) {
  const void* data = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  return data == nullptr
             ? std::string_view()
             : std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

Result<void> exec(sqlite3* db, const char* sql) {
  const int rc = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  if (rc != SQLITE_OK)
    return sqlite_error(db, rc, std::string("run ") + std::string(sql).substr(0, 120));
  return {};
}

void disable_checkpoint_on_close(sqlite3* db) {
  (void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

Result<std::string> query_text(sqlite3* db, const std::string& sql) {
  HOLDFAST_TRY(Statement statement, Statement::prepare(db, sql.c_str()));
  auto use = statement.use();
  HOLDFAST_TRY(const bool row, use.step());
  return row ? std::string(column_bytes(use.statement(), 0)) : std::string();
}

Result<std::int64_t> query_int(sqlite3* db, const std::string& sql) {
  HOLDFAST_TRY(const std::string text, query_text(db, sql));
  return std::int64_t{std::strtoll(text.c_str(), nullptr, 10)};
}

}  // namespace holdfast::store
