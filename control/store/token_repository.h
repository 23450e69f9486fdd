#pragma once
// Committed tokens: the tables `tail`, which has the newest ones of all choices, and `settled`. The
// rows of the tail are in memory too (tail.h).

#include <cstdint>

#include "control/store/connection.h"
#include "control/store/select.h"
#include "control/store/tail.h"
#include "control/store/write_statements.h"

namespace holdfast::store {

inline constexpr Columns kNewChunkColumns{"seq", "choice", "start", "ids", "extra", "crc"};
inline constexpr Columns kChunkColumns{"start", "ids", "extra", "crc"};

/// Reads and writes the tokens of choices: the tail and the chunks.
class TokenRepository {
 public:
  /// `tail_rows` is the length from which the tail moves to its requests.
  TokenRepository(Connection& connection, std::int64_t tail_rows)
      : connection_(connection), tail_rows_(tail_rows) {}
  Result<void> prepare();
  /// Reads at the opening what an earlier process left in the tail, damaged or not.
  Result<void> load_tail();

  // ---- inside the transaction of a group, which commit() or rollback() ends
  /// Moves a long tail to its requests, before the group's own rows.
  Result<void> settle_if_long();
  Result<void> write(const core::InsertChunk& c);
  Result<void> delete_tail(core::Seq seq);
  Result<void> delete_settled(core::Seq seq);
  void commit() { tail_.commit(); }
  void rollback() { tail_.rollback(); }

  /// Returns exactly the committed tokens [start, end) of a choice. kCorrupt: they are not there.
  Result<domain::TokenRun> tokens(core::Seq seq, std::int32_t choice, std::int64_t start,
                                  std::int64_t end);

 private:
  Result<void> settle_tail();

  Connection& connection_;
  std::int64_t tail_rows_;
  Tail tail_;
  Insert<kNewChunkColumns> insert_settled_, insert_tail_;
  Statement empty_tail_, delete_tail_, delete_settled_;
  Select<kChunkColumns> settled_;
};

}  // namespace holdfast::store
