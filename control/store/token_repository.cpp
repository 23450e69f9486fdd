#include "control/store/token_repository.h"

#include <algorithm>
#include <string>
#include <utility>

#include "control/store/damage.h"

namespace holdfast::store {
namespace {

constexpr std::int64_t kTailBytes = 4 << 20;

Result<void> insert_row(Insert<kNewChunkColumns>& into, Tail::Key key, const ChunkRow& row) {
  auto values = into.values();
  values.set("seq", key.first).set("choice", key.second).set("start", row.start);
  values.set_blob("ids", row.ids);
  if (row.extra) {
    values.set("extra", *row.extra);
  } else {
    values.set_null("extra");
  }
  return values.set("crc", std::int64_t{row.crc}).run();
}

/// Reads the columns of a chunk, with or without those of its key.
template <class RowsOfChunks>
ChunkRow chunk_row(const RowsOfChunks& rows) {
  ChunkRow row;
  row.start = rows.integer("start");
  row.ids = rows.text("ids");
  if (!rows.is_null("extra")) row.extra = rows.text("extra");
  row.crc = static_cast<std::uint32_t>(rows.integer("crc"));
  return row;
}

}  // namespace

Result<void> TokenRepository::prepare() {
  sqlite3* db = connection_.get();
  HOLDFAST_CHECKED(insert_settled_.prepare_plain(db, "settled"));
  HOLDFAST_CHECKED(insert_tail_.prepare_plain(db, "tail"));
  HOLDFAST_TRY(empty_tail_, Statement::prepare(db, "DELETE FROM tail"));
  HOLDFAST_TRY(delete_tail_, Statement::prepare(db, "DELETE FROM tail WHERE seq=?"));
  HOLDFAST_TRY(delete_settled_, Statement::prepare(db, "DELETE FROM settled WHERE seq=?"));
  return settled_.prepare(
      db,
      "SELECT start, ids, extra, crc FROM settled WHERE seq=?1 AND choice=?2 AND start < ?4 AND"
      " start >= coalesce((SELECT max(start) FROM settled WHERE seq=?1 AND choice=?2 AND"
      " start <= ?3), 0) ORDER BY start");
}

Result<void> TokenRepository::load_tail() {
  Select<kNewChunkColumns> select;
  HOLDFAST_CHECKED(select.prepare(connection_.get(),
                                  "SELECT " + kNewChunkColumns.list() + " FROM tail ORDER BY pos"));
  auto rows = select.rows();
  for (;;) {
    HOLDFAST_TRY(const bool more, rows.step());
    if (!more) break;
    tail_.add({rows.integer("seq"), rows.int32("choice")}, chunk_row(rows));
  }
  tail_.commit();
  return {};
}

Result<void> TokenRepository::settle_if_long() {
  if (tail_.rows() < tail_rows_ && tail_.bytes() < kTailBytes) return {};
  return settle_tail();
}

/// Moves the tail's rows to their requests.
Result<void> TokenRepository::settle_tail() {
  for (const auto& [key, rows] : tail_.streams()) {
    for (const ChunkRow& row : merge_chunks(rows)) {
      HOLDFAST_CHECKED(insert_row(insert_settled_, key, row));
    }
  }
  HOLDFAST_CHECKED(empty_tail_.use().run());
  tail_.clear();
  return {};
}

Result<void> TokenRepository::write(const core::InsertChunk& c) {
  ChunkRow row = encode_chunk(c);
  HOLDFAST_CHECKED(insert_row(insert_tail_, {c.seq, c.choice}, row));
  tail_.add({c.seq, c.choice}, std::move(row));
  return {};
}

Result<void> TokenRepository::delete_tail(core::Seq seq) {
  if (!tail_.has(seq)) return {};
  HOLDFAST_CHECKED(delete_tail_.use().bind(seq).run());
  tail_.erase(seq);
  return {};
}

Result<void> TokenRepository::delete_settled(core::Seq seq) {
  return delete_settled_.use().bind(seq).run();
}

Result<domain::TokenRun> TokenRepository::tokens(core::Seq seq, std::int32_t choice,
                                                 std::int64_t start, std::int64_t end) {
  domain::TokenRun span;
  std::int64_t next = start;
  const std::vector<ChunkRow>* tail = tail_.of({seq, choice});
  if (tail == nullptr || start < tail->front().start) {
    HOLDFAST_CHECKED(connection_.begin_reads());
    auto rows = settled_.rows();
    rows.bind(seq).bind(std::int64_t{choice}).bind(start).bind(end);
    while (next < end) {
      HOLDFAST_TRY(const bool more, rows.step());
      if (!more) break;
      if (!append_chunk(chunk_row(rows), end, next, span)) return damaged_of_request("tokens", seq);
    }
  }
  if (tail != nullptr) {
    // The last row that begins at or before `next`, and the rows after it.
    auto row = std::upper_bound(tail->begin(), tail->end(), next,
                                [](std::int64_t at, const ChunkRow& r) { return at < r.start; });
    if (row != tail->begin()) --row;
    for (; next < end && row != tail->end(); ++row) {
      if (!append_chunk(*row, end, next, span)) return damaged_of_request("tokens", seq);
    }
  }
  if (next < end) return damaged_of_request("tokens", seq);
  const auto written = [](const std::string& extra) { return !extra.empty(); };
  if (std::none_of(span.extra.begin(), span.extra.end(), written)) span.extra.clear();
  return span;
}

}  // namespace holdfast::store
