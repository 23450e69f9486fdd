#pragma once
// RAII over SQLite's C interface: a connection, a prepared statement with typed binds and reads,
// and the one place that turns its result codes into ours.

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::store {

/// The error of a result code: kDiskFull, kCorrupt, kConflict (BUSY), kIo (open) or kStorage, with
/// "what: sqlite's words (code)".
Error sqlite_error(sqlite3* db, int rc, std::string_view what);

/// One prepared statement. It is reset and unbound when the Use ends.
class Statement {
 public:
  Statement() = default;
  Statement(Statement&& other) noexcept : db_(other.db_), stmt_(other.stmt_) {
    other.stmt_ = nullptr;
  }
  Statement& operator=(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(stmt_); }
  static Result<Statement> prepare(sqlite3* db, const char* sql);

  class Use {
   public:
    explicit Use(Statement& s) : db_(s.db_), stmt_(s.stmt_) {}
    Use(const Use&) = delete;
    ~Use() {
      sqlite3_reset(stmt_);
      sqlite3_clear_bindings(stmt_);
    }
    /// Binds the next parameter. Text and blobs must live until the Use ends.
    Use& bind(std::int64_t value);
    Use& bind(std::string_view text);
    Use& bind_blob(std::string_view bytes);
    Use& bind_null();
    /// Returns true if there is a row, false at the end.
    Result<bool> step();
    /// Runs a statement that returns no row.
    Result<void> run();
    std::int64_t integer(int column) const { return sqlite3_column_int64(stmt_, column); }
    /// Text or blob; empty for NULL. Valid until the next step.
    std::string_view bytes(int column) const;
    std::string text(int column) const { return std::string(bytes(column)); }
    /// Columns of the row: the last one is columns() - 1.
    int columns() const { return sqlite3_column_count(stmt_); }
    bool is_null(int column) const { return sqlite3_column_type(stmt_, column) == SQLITE_NULL; }

   private:
    sqlite3* db_;
    sqlite3_stmt* stmt_;
    int next_ = 1;
  };
  Use use() { return Use(*this); }

 private:
  sqlite3* db_ = nullptr;
  sqlite3_stmt* stmt_ = nullptr;
};

/// Runs SQL without parameters and results.
Result<void> exec(sqlite3* db, const char* sql);
/// Leaves the log alone at the close, for use after a failed sync: the last connection of a
/// database would write its log into the file and delete it.
void disable_checkpoint_on_close(sqlite3* db);
/// Returns the first column of the first row; empty if there is none.
Result<std::string> query_text(sqlite3* db, const std::string& sql);
/// Returns the same as a number; 0 if there is none.
Result<std::int64_t> query_int(sqlite3* db, const std::string& sql);

}  // namespace holdfast::store
