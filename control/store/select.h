#pragma once
// SELECTs whose columns are read by name. When the statement is prepared, its columns are compared
// with the list of names that the reader has, so that neither can change without the other.

#include <string>
#include <string_view>

#include "control/store/columns.h"
#include "control/store/row_checksum.h"
#include "control/store/sqlite.h"

namespace holdfast::store {

/// Prepares a SELECT and checks that its columns have these names; `checked`: and one more,
/// "sound".
Result<Statement> prepare_select(sqlite3* db, const std::string& sql, ColumnNames names,
                                 bool checked);

/// The rows of one run of a SELECT, one after another. The statement is reset when it ends.
template <const auto& kColumns>
class Rows {
 public:
  explicit Rows(Statement& select) : use_(select) {}

  /// Binds the next parameter. Text must live until the rows end.
  Rows& bind(std::int64_t value) {
    use_.bind(value);
    return *this;
  }
  Rows& bind(std::string_view text) {
    use_.bind(text);
    return *this;
  }
  /// Goes to the next row. Returns false at the end.
  Result<bool> step() { return use_.step(); }

  // ---- columns of the current row
  std::int64_t integer(Column<kColumns> column) const {
    return sqlite3_column_int64(use_.statement(), column.position);
  }
  std::int32_t int32(Column<kColumns> column) const {
    return static_cast<std::int32_t>(integer(column));
  }
  std::uint64_t uint64(Column<kColumns> column) const {
    return static_cast<std::uint64_t>(integer(column));
  }
  bool flag(Column<kColumns> column) const { return integer(column) != 0; }
  /// Returns a text or blob; empty for NULL. Valid until the next step.
  std::string_view bytes(Column<kColumns> column) const {
    return column_bytes(use_.statement(), column.position);
  }
  std::string text(Column<kColumns> column) const { return std::string(bytes(column)); }
  bool is_null(Column<kColumns> column) const {
    return sqlite3_column_type(use_.statement(), column.position) == SQLITE_NULL;
  }

 protected:
  Statement::Use use_;
};

/// Rows with a checksum, which the last column of their SELECT compares.
template <const auto& kColumns>
class CheckedRows : public Rows<kColumns> {
 public:
  using Rows<kColumns>::Rows;
  /// Returns false if the current row is not as it was written.
  bool is_sound() const {
    return sqlite3_column_int64(this->use_.statement(), kColumns.size()) != 0;
  }
};

/// A SELECT of these columns.
template <const auto& kColumns>
class Select {
 public:
  /// Prepares a SELECT whose columns, in their order, have the names of the list.
  Result<void> prepare(sqlite3* db, const std::string& sql) {
    HOLDFAST_TRY(statement_, prepare_select(db, sql, kColumns.span(), false));
    return {};
  }
  Rows<kColumns> rows() { return Rows<kColumns>(statement_); }

 private:
  Statement statement_;
};

/// A SELECT of these columns and of the check of each row.
template <const auto& kColumns>
class CheckedSelect {
 public:
  /// Prepares "SELECT columns, … AS sound FROM table" and `rest`.
  Result<void> prepare(sqlite3* db, const char* table, const std::string& rest) {
    return prepare_as(db, "SELECT " + kColumns.list() + ", " + sound_row(table) +
                              " AS sound FROM " + table + " " + rest);
  }
  /// Prepares a SELECT with the list's columns and `sound` as the last one.
  Result<void> prepare_as(sqlite3* db, const std::string& sql) {
    HOLDFAST_TRY(statement_, prepare_select(db, sql, kColumns.span(), true));
    return {};
  }
  CheckedRows<kColumns> rows() { return CheckedRows<kColumns>(statement_); }

 private:
  Statement statement_;
};

}  // namespace holdfast::store
