#pragma once
// RAII over SQLite's C interface: a prepared statement with typed binds, and the one place that
// turns its result codes into ours. Rows are read by select.h.

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
    Use& bind(std::int64_t value) { return bind_at(next_++, value); }
    Use& bind(std::string_view text) { return bind_at(next_++, text); }
    Use& bind_blob(std::string_view bytes) { return bind_blob_at(next_++, bytes); }
    Use& bind_null() { return bind_null_at(next_++); }
    /// Binds a parameter by its number, from 1.
    Use& bind_at(int parameter, std::int64_t value);
    Use& bind_at(int parameter, std::string_view text);
    Use& bind_blob_at(int parameter, std::string_view bytes);
    Use& bind_null_at(int parameter);
    /// Returns true if there is a row, false at the end.
    Result<bool> step();
    /// Runs a statement that returns no row.
    Result<void> run();
    /// The statement, for reads of its row (select.h).
    sqlite3_stmt* statement() const { return stmt_; }

   private:
    sqlite3* db_;
    sqlite3_stmt* stmt_;
    int next_ = 1;
  };
  Use use() { return Use(*this); }
  sqlite3_stmt* get() const { return stmt_; }

 private:
  sqlite3* db_ = nullptr;
  sqlite3_stmt* stmt_ = nullptr;
};

/// Returns a text or blob of the current row; empty for NULL. Valid until the next step.
std::string_view column_bytes(sqlite3_stmt* statement, int column);
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
