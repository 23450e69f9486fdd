#pragma once
// The rows of the table `tail` in memory: the newest tokens of all choices, so that reading them
// needs no index on a table that only grows at its end. See schema/002_tail.sql.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/core/rows.h"
#include "control/store/store.h"

namespace holdfast::store {

/// A row of `settled` or `tail` as the file has it: encoded, with its checksum.
struct ChunkRow {
  std::int64_t start = 0;
  std::string ids;
  std::optional<std::string> extra;
  std::uint32_t crc = 0;
};

/// Encodes a chunk as a row, checksum included.
ChunkRow encode_chunk(const core::InsertChunk& chunk);

/// Appends tokens [next, end) as far as `row` has them and moves `next`. kCorrupt: the checksum is
/// wrong, or the row does not begin at or before `next` and reach beyond it.
Result<void> append_chunk(const ChunkRow& row, std::int64_t end, std::int64_t& next,
                          domain::TokenRun& span);

/// Merges the rows of one choice into one row. If one of them is damaged they stay as they are, so
/// that the damage stays visible.
std::vector<ChunkRow> merge_chunks(const std::vector<ChunkRow>& rows);

/// The newest chunks, which are rows of one small table until they are moved to their requests.
class Tail {
 public:
  using Key = std::pair<core::Seq, std::int32_t>;  // request, choice
  using Streams = std::map<Key, std::vector<ChunkRow>>;

  // ---- changes of the transaction in progress; commit() or rollback() ends it
  void add(Key key, ChunkRow row);
  void erase(core::Seq seq) { staged_.push_back({{seq, 0}, std::nullopt}); }
  void clear() { cleared_ = true; }
  void commit();
  void rollback();

  // ---- committed rows
  const Streams& streams() const { return streams_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t bytes() const { return bytes_; }
  /// Returns the rows of a choice; nullptr if there are none.
  const std::vector<ChunkRow>* of(Key key) const;
  /// Returns true if the request has rows, also of the transaction in progress.
  bool has(core::Seq seq) const;

 private:
  struct Staged {
    Key key;
    std::optional<ChunkRow> row;  // none: all rows of the request are erased
  };
  void erase_now(core::Seq seq);

  Streams streams_;
  std::vector<Staged> staged_;
  bool cleared_ = false;  // before the staged rows
  std::int64_t rows_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace holdfast::store
