#pragma once
// Statements that write rows and sum them here, from what is bound. SQL that calls a function with
// every column costs more than the hash, a share of the daemon's time for rows that each group
// writes. Rows that are seldom written get their checksum from SQL (row_checksum.h).

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "control/core/rows.h"
#include "control/store/row_hash.h"
#include "control/store/sqlite.h"

namespace holdfast::store {

/// A column that a statement binds.
struct SummedColumn {
  ColumnSeeds seeds;
  std::uint64_t counts = 0;  // all ones; zero: the checksum does not cover it
  std::uint64_t stays = 0;   // all ones: no UPDATE changes it
};

class SummedStatement {
 public:
  class Use {
   public:
    /// Binds the next parameter; the checksum is bound after the last column. Text and blobs must
    /// live until the Use ends.
    Use& bind(std::int64_t value) {
      use_.bind(value);
      if (at_ != end_) count(at_->seeds.part(value));
      return *this;
    }
    Use& bind(std::string_view text) {
      use_.bind(text);
      if (at_ != end_) count(at_->counts == 0 ? 0 : at_->seeds.part_text(text));
      return *this;
    }
    Use& bind_blob(std::string_view bytes) {
      use_.bind_blob(bytes);
      if (at_ != end_) count(at_->counts == 0 ? 0 : at_->seeds.part_blob(bytes));
      return *this;
    }
    Use& bind_null() {
      use_.bind_null();
      if (at_ != end_) count(at_->seeds.part_null());
      return *this;
    }
    Result<void> run() {
      CHECK_MSG(at_ == end_, "a statement binds each of its columns");
      return use_.run();
    }
    /// The part of an inserted row's checksum that no UPDATE changes.
    std::uint64_t staying() const { return staying_; }

   private:
    friend class SummedStatement;
    friend class SummedUpdate;
    Use(Statement& statement, const std::vector<SummedColumn>& columns,
        std::optional<std::uint64_t> others)
        : use_(statement.use()),
          at_(columns.data()),
          end_(columns.data() + columns.size()),
          sum_(others.value_or(0)),
          binds_sum_(others.has_value()) {}
    void count(std::uint64_t part) {
      sum_ ^= part & at_->counts;
      staying_ ^= part & at_->stays;
      if (++at_ == end_ && binds_sum_) use_.bind(static_cast<std::int64_t>(sum_ & kSumMask));
    }

    Statement::Use use_;
    const SummedColumn* at_;
    const SummedColumn* end_;
    std::uint64_t sum_;
    std::uint64_t staying_ = 0;
    bool binds_sum_;
  };

  /// Prepares "INSERT INTO table(columns, checksum) VALUES (…)" and `tail`, `columns` in the order
  /// of binding. Columns that are left out have the defaults of the schema. `changing` are the
  /// columns that an UPDATE may change; staying() covers the others.
  static Result<SummedStatement> insert(sqlite3* db, const char* table, std::string_view columns,
                                        std::string_view changing = "", const char* tail = "");
  Use use() { return {statement_, columns_, left_out_}; }

 private:
  Statement statement_;
  std::vector<SummedColumn> columns_;
  std::uint64_t left_out_ = 0;  // part of the columns that are not bound
};

/// An UPDATE of columns of one row. If the part of all other columns is known from the INSERT, the
/// checksum is bound. Otherwise SQL moves the stored one: the other columns are not summed anew
/// from the file.
class SummedUpdate {
 public:
  static Result<SummedUpdate> prepare(sqlite3* db, const char* table, std::string_view columns,
                                      const char* where);
  SummedStatement::Use use(std::optional<std::uint64_t> others) {
    return {others ? bound_ : moved_, columns_, others};
  }

 private:
  Statement bound_, moved_;
  std::vector<SummedColumn> columns_;
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
