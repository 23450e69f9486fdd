#pragma once
// INSERTs and UPDATEs whose values are given by the names of their columns. The SQL is made from
// the lists of names. Rows that each group writes get their checksum from summed.h instead.

#include <string>
#include <string_view>

#include "control/store/columns.h"
#include "control/store/row_checksum.h"
#include "control/store/sqlite.h"

namespace holdfast::store {

/// The values of one run of a statement that writes the columns kSet, of the row with these kKey.
template <const auto& kSet, const auto& kKey = kNoColumns>
class Values {
 public:
  static constexpr int kParameters = kSet.size() + kKey.size();
  static_assert(kParameters < 64, "one word marks the parameters that are bound");

  explicit Values(Statement& statement) : use_(statement) {}
  /// Gives a column its value. Text and blobs must live until the run ends.
  Values& set(Column<kSet> column, std::int64_t value) {
    use_.bind_at(mark(column.position), value);
    return *this;
  }
  Values& set(Column<kSet> column, std::string_view text) {
    use_.bind_at(mark(column.position), text);
    return *this;
  }
  Values& set_blob(Column<kSet> column, std::string_view bytes) {
    use_.bind_blob_at(mark(column.position), bytes);
    return *this;
  }
  Values& set_null(Column<kSet> column) {
    use_.bind_null_at(mark(column.position));
    return *this;
  }
  /// Names the row by a column of its key.
  Values& key(Column<kKey> column, std::int64_t value) {
    use_.bind_at(mark(kSet.size() + column.position), value);
    return *this;
  }
  /// Binds the parameter after all columns.
  void bind_last(std::int64_t value) { use_.bind_at(kParameters + 1, value); }
  Result<void> run() {
    CHECK_MSG(bound_ == (std::uint64_t{1} << kParameters) - 1, "each column has a value");
    return use_.run();
  }

 private:
  int mark(int at) {
    bound_ |= std::uint64_t{1} << at;
    return at + 1;
  }
  Statement::Use use_;
  std::uint64_t bound_ = 0;
};

/// An INSERT of these columns.
template <const auto& kColumns>
class Insert {
 public:
  /// Prepares the INSERT of a row whose checksum SQL computes: `verb` INTO table … `tail`.
  Result<void> prepare(sqlite3* db, const char* table, const char* verb = "INSERT",
                       const char* tail = "") {
    return prepare_sql(db, checked_insert(table, kColumns.span(), verb, tail));
  }
  /// Prepares the INSERT of a row without a checksum of its own.
  Result<void> prepare_plain(sqlite3* db, const char* table) {
    return prepare_sql(db, plain_insert(table, kColumns.span()));
  }
  Values<kColumns> values() { return Values<kColumns>(statement_); }

 private:
  Result<void> prepare_sql(sqlite3* db, const std::string& sql) {
    HOLDFAST_TRY(statement_, Statement::prepare(db, sql.c_str()));
    return {};
  }
  Statement statement_;
};

/// An UPDATE of columns of the row with this key. SQL moves the row's checksum.
template <const auto& kSet, const auto& kKey>
class Update {
 public:
  Result<void> prepare(sqlite3* db, const char* table) {
    HOLDFAST_TRY(statement_,
                 Statement::prepare(db, checked_update(table, kSet.span(), kKey.span()).c_str()));
    return {};
  }
  Values<kSet, kKey> values() { return Values<kSet, kKey>(statement_); }

 private:
  Statement statement_;
};

}  // namespace holdfast::store
