#pragma once
// Statements that write rows and sum them here, from what is bound. SQL that calls a function with
// every column costs more than the hash, a share of the daemon's time for rows that each group
// writes. Rows that are seldom written get their checksum from SQL (row_checksum.h).

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "control/core/rows.h"
#include "control/store/columns.h"
#include "control/store/row_hash.h"
#include "control/store/sqlite.h"
#include "control/store/write_statements.h"

namespace holdfast::store {

/// A column that a statement binds.
struct SummedColumn {
  ColumnSeeds seeds;
  std::uint64_t counts = 0;  // all ones; zero: the checksum does not cover it
  std::uint64_t stays = 0;   // all ones: no UPDATE changes it
};

/// A prepared INSERT with the parts of its checksum.
struct SummedInsertParts {
  Statement statement;
  std::vector<SummedColumn> columns;
  std::uint64_t left_out = 0;  // part of the columns that are not bound
};
/// Prepares "INSERT INTO table(columns, checksum) VALUES (…)" and `tail`. Columns that are left out
/// have the defaults of the schema. `changing` are the columns that an UPDATE may change.
Result<SummedInsertParts> prepare_summed_insert(sqlite3* db, const char* table, ColumnNames columns,
                                                ColumnNames changing, const char* tail);

/// A prepared UPDATE: one statement binds the checksum, one has it moved by SQL.
struct SummedUpdateParts {
  Statement bound, moved;
  std::vector<SummedColumn> columns;
};

/// Prepares the update of `columns` of the row with `key`, checksum included. kStoreFailed:
/// SQLite's own error.
Result<SummedUpdateParts> prepare_summed_update(sqlite3* db, const char* table, ColumnNames columns,
                                                ColumnNames key);

/// The values of one run of a statement, which sums them; the checksum is bound last.
template <const auto& kSet, const auto& kKey = kNoColumns>
class SummedValues {
 public:
  /// `others` is the part of the checksum of all other columns; without it none is bound.
  SummedValues(Statement& statement, const std::vector<SummedColumn>& columns,
               std::optional<std::uint64_t> others)
      : values_(statement),
        columns_(columns.data()),
        sum_(others.value_or(0)),
        binds_sum_(others.has_value()) {}

  /// Gives a column its value. Text and blobs must live until the run ends.
  SummedValues& set(Column<kSet> column, std::int64_t value) {
    values_.set(column, value);
    return count(column, of(column).seeds.part(value));
  }
  SummedValues& set(Column<kSet> column, std::string_view text) {
    values_.set(column, text);
    return count(column, of(column).counts == 0 ? 0 : of(column).seeds.part_text(text));
  }
  SummedValues& set_blob(Column<kSet> column, std::string_view bytes) {
    values_.set_blob(column, bytes);
    return count(column, of(column).counts == 0 ? 0 : of(column).seeds.part_blob(bytes));
  }
  SummedValues& set_null(Column<kSet> column) {
    values_.set_null(column);
    return count(column, of(column).seeds.part_null());
  }
  /// Gives a column a text, or NULL for an empty one.
  SummedValues& set_or_null(Column<kSet> column, std::string_view text) {
    return text.empty() ? set_null(column) : set(column, text);
  }
  /// Names the row by a column of its key.
  SummedValues& key(Column<kKey> column, std::int64_t value) {
    values_.key(column, value);
    return *this;
  }
  Result<void> run() {
    if (binds_sum_) values_.bind_last(static_cast<std::int64_t>(sum_ & kSumMask));
    return values_.run();
  }
  /// The part of an inserted row's checksum that no UPDATE changes.
  std::uint64_t staying() const { return staying_; }

 private:
  const SummedColumn& of(Column<kSet> column) const { return columns_[column.position]; }
  SummedValues& count(Column<kSet> column, std::uint64_t part) {
    sum_ ^= part & of(column).counts;
    staying_ ^= part & of(column).stays;
    return *this;
  }

  Values<kSet, kKey> values_;
  const SummedColumn* columns_;
  std::uint64_t sum_;
  std::uint64_t staying_ = 0;
  bool binds_sum_;
};

/// An INSERT of these columns. kChanging are those that an UPDATE may change;
/// SummedValues::staying() covers the others.
template <const auto& kColumns, const auto& kChanging = kNoColumns>
class SummedInsert {
 public:
  Result<void> prepare(sqlite3* db, const char* table, const char* tail = "") {
    HOLDFAST_TRY(parts_, prepare_summed_insert(db, table, kColumns.span(), kChanging.span(), tail));
    return {};
  }
  SummedValues<kColumns> values() { return {parts_.statement, parts_.columns, parts_.left_out}; }

 private:
  SummedInsertParts parts_;
};

/// An UPDATE of columns of one row. If the part of all other columns is known from the INSERT, the
/// checksum is bound. Otherwise SQL moves the stored one: the other columns are not summed anew
/// from the file.
template <const auto& kSet, const auto& kKey>
class SummedUpdate {
 public:
  Result<void> prepare(sqlite3* db, const char* table) {
    HOLDFAST_TRY(parts_, prepare_summed_update(db, table, kSet.span(), kKey.span()));
    return {};
  }
  SummedValues<kSet, kKey> values(std::optional<std::uint64_t> others) {
    return {others ? parts_.bound : parts_.moved, parts_.columns, others};
  }

 private:
  SummedUpdateParts parts_;
};

/// The staying parts of checksums, for live requests that this process inserted. No UPDATE changes
/// them, so a forgotten one costs only time.
class StayingSums {
 public:
  void insert_request(core::Seq seq, std::uint64_t sum);
  /// Called in the order of the choices, after insert_request().
  void insert_choice(core::Seq seq, std::int32_t choice, std::uint64_t sum);
  void begin_attempt(core::Seq seq, std::int32_t choice, wire::Fence fence, std::uint64_t sum);
  std::optional<std::uint64_t> request(core::Seq seq) const;
  std::optional<std::uint64_t> choice(core::Seq seq, std::int32_t choice) const;
  std::optional<std::uint64_t> attempt(core::Seq seq, std::int32_t choice, wire::Fence fence) const;
  void forget(core::Seq seq) { requests_.erase(seq); }
  void clear() { requests_.clear(); }

 private:
  struct Choice {
    std::uint64_t sum = 0;
    wire::Fence fence;  // of the newest attempt
    std::optional<std::uint64_t> attempt;
  };
  struct Request {
    std::uint64_t sum = 0;
    std::vector<Choice> choices;
  };
  const Choice* find(core::Seq seq, std::int32_t choice) const;
  std::unordered_map<core::Seq, Request> requests_;
};

}  // namespace holdfast::store
