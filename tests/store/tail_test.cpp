// Goal: tokens read back the same whether they are still in the tail, have moved to their requests,
// or are split over both; after a restart too; damage is seen on both sides of a move and never
// erased by it; a group that failed leaves nothing. Method: the store with a tail of few rows,
// compared with one whose tail never moves, and by hand through SQL.
#include <gtest/gtest.h>

#include "control/store/backup.h"
#include "control/store/tail.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::tail_test {
namespace {

using core::TokenId;

std::unique_ptr<Store> open_with(const std::string& dir, std::int64_t tail_rows) {
  OpenOptions options;
  options.state_dir = dir;
  options.tail_rows = tail_rows;
  return Store::open(options).value();
}

std::string rows_in(const TempState& state, const std::string& table) {
  return read_sql(state.db(), "SELECT count(*) FROM " + table);
}

core::InsertChunk chunk_with(core::Seq seq, std::int64_t start, std::vector<TokenId> ids,
                             std::vector<std::string> extra) {
  core::InsertChunk c = chunk(seq, start, std::move(ids));
  c.extra = std::move(extra);
  return c;
}

TEST(Tail, Tail_WhenARequestIsDeletedWithItsFirstTokens_HasNoRows) {
  const TempState state(true);
  auto store = open_with(state.dir(), 100);
  commit(*store, {request_row(1)});
  commit(*store, {chunk(1, 0, {5}), core::DeleteRequest{1}});
  EXPECT_EQ(rows_in(state, "tail"), "0");
  commit(*store, {request_row(2)});
  commit(*store, {chunk(2, 0, {5})});
  EXPECT_EQ(rows_in(state, "tail"), "1");
  commit(*store, {core::DeleteRequest{2}});
  EXPECT_EQ(rows_in(state, "tail"), "0");
}

TEST(Tail, Tail_WhenFull_MovesItsRowsEachTime) {
  const TempState state(true);
  auto store = open_with(state.dir(), 3);
  commit(*store, {request_row(1)});
  std::vector<std::string> rows;
  for (std::int64_t i = 0; i < 12; ++i) {
    commit(*store, {chunk(1, i, {5})});
    rows.push_back(rows_in(state, "tail"));
  }
  for (std::size_t i = 3; i + 3 < rows.size(); ++i) EXPECT_EQ(rows[i], rows[i + 3]) << i;
  EXPECT_NE(rows[3], rows[4]);
}

TEST(Tail, Tokens_WithAnyTailLength_ReadTheSame) {
  for (const std::int64_t rows : {1, 2, 3, 5, 8, 4096}) {
    const TempState state(true);
    auto store = open_with(state.dir(), rows);
    for (core::Seq seq = 1; seq <= 3; ++seq) commit(*store, {request_row(seq)});
    for (std::int64_t i = 0; i < 20; ++i) {
      for (core::Seq seq = 1; seq <= 3; ++seq) {
        const auto id = static_cast<TokenId>(100 * seq + i);
        if (seq == 2 && i % 3 == 0) {
          commit(*store, {chunk_with(seq, i, {id}, {"x" + std::to_string(i)})});
        } else {
          commit(*store, {chunk(seq, i, {id})});
        }
      }
      if (i == 9) {
        store.reset();
        store = open_with(state.dir(), rows);
      }
    }
    for (core::Seq seq = 1; seq <= 3; ++seq) {
      for (std::int64_t from = 0; from < 20; ++from) {
        const domain::TokenRun span = store->tokens(seq, 0, from, 20).value();
        ASSERT_EQ(span.ids.size(), static_cast<std::size_t>(20 - from)) << rows;
        EXPECT_EQ(span.ids.front(), 100 * seq + from);
        EXPECT_EQ(span.ids.back(), 100 * seq + 19);
        EXPECT_EQ(span.extra.empty(), seq != 2 || from == 19) << from;
        if (seq == 2 && from % 3 == 0) {
          EXPECT_EQ(span.extra.front(), "x" + std::to_string(from));
        }
      }
      EXPECT_EQ(store->tokens(seq, 0, 0, 21).error().code, Errc::kCorrupt);
    }
    EXPECT_EQ(read_sql(state.db(), "SELECT count(*) FROM chunks WHERE seq=1 AND start=0"), "1");
    EXPECT_EQ(rows_in(state, "settled") == "0", rows == 4096);
  }
}

TEST(Tail, TailSize_AfterAddsAndErases_CountsCommittedRows) {
  Tail tail;
  tail.add({1, 0}, encode_chunk(chunk(1, 0, {5, 6, 7})));
  EXPECT_EQ(tail.rows(), 0) << "not committed yet";
  tail.commit();
  const std::int64_t first = tail.bytes();
  EXPECT_EQ(tail.rows(), 1);
  EXPECT_GT(first, 0);
  tail.add({2, 0}, encode_chunk(chunk(2, 0, {5, 6, 7})));
  tail.add({2, 1}, encode_chunk(chunk(2, 0, {5, 6, 7})));
  tail.commit();
  EXPECT_EQ(tail.rows(), 3);
  EXPECT_EQ(tail.bytes(), 3 * first);
  tail.erase(2);
  tail.commit();
  EXPECT_EQ(tail.rows(), 1);
  EXPECT_EQ(tail.bytes(), first);
  tail.clear();
  tail.commit();
  EXPECT_EQ(tail.rows(), 0);
  EXPECT_EQ(tail.bytes(), 0);
}

TEST(Tail, TailBytes_WithIdsAndExtras_CountsBoth) {
  Tail tail;
  tail.add({1, 0}, encode_chunk(chunk(1, 0, {5, 6, 7})));
  tail.commit();
  EXPECT_EQ(tail.bytes(), 12);
  const ChunkRow with_extra = encode_chunk(chunk_with(1, 3, {8}, {"x"}));
  tail.add({1, 0}, with_extra);
  tail.commit();
  EXPECT_EQ(tail.bytes(), 12 + 4 + static_cast<std::int64_t>(with_extra.extra->size()));
  tail.add({2, 0}, encode_chunk(chunk(2, 0, {5})));
  tail.erase(1);
  tail.rollback();
  EXPECT_EQ(tail.rows(), 2) << "what was taken back was never there";
  tail.erase(1);
  tail.commit();
  EXPECT_EQ(tail.bytes(), 0);
}

TEST(Tail, TailHas_WhenTokensAreUncommitted_IsTrue) {
  Tail tail;
  tail.add({2, 1}, encode_chunk(chunk(2, 0, {5})));
  EXPECT_TRUE(tail.has(2));
  EXPECT_FALSE(tail.has(1));
  EXPECT_FALSE(tail.has(3));
  EXPECT_EQ(tail.of({2, 1}), nullptr);
  tail.rollback();
  EXPECT_FALSE(tail.has(2));
  tail.add({2, 1}, encode_chunk(chunk(2, 0, {5})));
  tail.commit();
  EXPECT_TRUE(tail.has(2));
  EXPECT_FALSE(tail.has(1));
  EXPECT_FALSE(tail.has(3));
  ASSERT_NE(tail.of({2, 1}), nullptr);
  EXPECT_EQ(tail.of({2, 1})->size(), 1u);
  EXPECT_EQ(tail.of({2, 0}), nullptr);
  tail.erase(9);
  EXPECT_FALSE(tail.has(9)) << "that one goes";
  tail.rollback();
  tail.clear();
  EXPECT_FALSE(tail.has(2)) << "all of them have moved";
  tail.add({4, 0}, encode_chunk(chunk(4, 0, {5})));
  EXPECT_TRUE(tail.has(4));
}

TEST(Tail, Tail_WhenItsBytesExceedTheLimit_MovesItsRows) {
  const TempState state(true);
  auto store = open_with(state.dir(), 1'000'000);
  commit(*store, {request_row(1)});
  const std::string megabyte(1 << 20, 'x');
  for (std::int64_t i = 0; i < 4; ++i) {
    commit(*store, {chunk_with(1, i, {5}, {megabyte})});
    EXPECT_EQ(rows_in(state, "settled"), "0");
  }
  commit(*store, {chunk(1, 4, {6})});
  EXPECT_EQ(rows_in(state, "settled"), "1");
  EXPECT_EQ(rows_in(state, "tail"), "1");
  EXPECT_EQ(store->tokens(1, 0, 3, 5)->extra.front().size(), megabyte.size());
}

TEST(Tail, AppendChunk_WhenTheChunkIsNotAdjacent_IsAGap) {
  domain::TokenRun span;
  const ChunkRow row = encode_chunk(chunk(1, 5, {50, 51, 52}));
  const auto append = [&](std::int64_t from, std::int64_t end) {
    span = {};
    std::int64_t next = from;
    const bool ok = append_chunk(row, end, next, span).has_value();
    EXPECT_TRUE(ok || next == from);
    return ok ? span.ids : std::vector<TokenId>();
  };
  EXPECT_EQ(append(5, 8), (std::vector<TokenId>{50, 51, 52}));
  EXPECT_EQ(append(6, 7), (std::vector<TokenId>{51}));
  EXPECT_EQ(append(7, 100), (std::vector<TokenId>{52}));
  EXPECT_TRUE(append(4, 8).empty()) << "it begins later";
  EXPECT_TRUE(append(8, 9).empty()) << "it ends before";
  EXPECT_EQ(span.extra.size(), span.ids.size());
}

TEST(Tail, Tail_WhenMoved_MergesManyRowsIntoOne) {
  const TempState state;
  auto store = open_with(state.dir(), 10);
  commit(*store, {request_row(1), request_row(2)});
  for (std::int64_t i = 0; i < 5; ++i) commit(*store, {chunk(1, i, {1}), chunk(2, i, {2})});
  EXPECT_EQ(rows_in(state, "tail"), "10");
  commit(*store, {chunk(1, 5, {3})});
  EXPECT_EQ(rows_in(state, "tail"), "1");
  EXPECT_EQ(rows_in(state, "settled"), "2");
  EXPECT_EQ(read_sql(state.db(), "SELECT length(ids) FROM settled WHERE seq=1"), "20");
  EXPECT_EQ(store->tokens(1, 0, 3, 6)->ids, (std::vector<TokenId>{1, 1, 3}));
}

TEST(Tail, DamagedTailRow_WhenMoved_StaysDetectable) {
  const TempState state;
  auto store = open_with(state.dir(), 4096);
  commit(*store, {request_row(1), request_row(2)});
  commit(*store, {chunk(1, 0, {1}), chunk(1, 1, {2}), chunk(2, 0, {3}), chunk(2, 1, {4})});
  store.reset();
  run_sql(state.db(), "UPDATE tail SET crc = crc + 1 WHERE seq = 1 AND start = 1");
  store = open_with(state.dir(), 1);
  EXPECT_EQ(store->tokens(1, 0, 0, 2).error().code, Errc::kCorrupt);
  commit(*store, {chunk(2, 2, {5})});
  EXPECT_EQ(rows_in(state, "tail"), "1");
  EXPECT_EQ(rows_in(state, "settled"), "3");  // the damaged request's stay as they are
  EXPECT_EQ(store->tokens(1, 0, 0, 1)->ids, (std::vector<TokenId>{1}));
  EXPECT_EQ(store->tokens(1, 0, 0, 2).error().code, Errc::kCorrupt);
  EXPECT_EQ(store->tokens(2, 0, 0, 3)->ids, (std::vector<TokenId>{3, 4, 5}));
  store.reset();
  EXPECT_EQ(check_file(state.db()).error().code, Errc::kCorrupt);
}

TEST(Tail, Tokens_WhenSettledRowsAreMissing_AreAGap) {
  const TempState state;
  auto store = open_with(state.dir(), 2);
  commit(*store, {request_row(1)});
  for (std::int64_t i = 0; i < 3; ++i) commit(*store, {chunk(1, i, {7})});
  ASSERT_EQ(rows_in(state, "settled"), "1");
  ASSERT_EQ(rows_in(state, "tail"), "1");
  store.reset();
  run_sql(state.db(), "DELETE FROM settled");
  store = open_with(state.dir(), 2);
  for (std::int64_t start = 0; start < 2; ++start) {
    const auto gap = store->tokens(1, 0, start, 3);
    ASSERT_FALSE(gap) << start;
    EXPECT_EQ(gap.error().code, Errc::kCorrupt);
    EXPECT_EQ(gap.error().what.find("read tokens of request row 1: "), 0u) << gap.error().what;
  }
  EXPECT_EQ(store->tokens(1, 0, 2, 3)->ids, std::vector<TokenId>{7});
}

TEST(Tail, Check_WhenATailRowIsDamaged_FindsIt) {
  const TempState state;
  auto store = open_with(state.dir(), 4096);
  commit(*store, {request_row(1), chunk(1, 0, {1})});
  store.reset();
  EXPECT_EQ(check_file(state.db())->chunks, 1);
  run_sql(state.db(), "UPDATE tail SET crc = crc + 1");
  EXPECT_EQ(check_file(state.db()).error().code, Errc::kCorrupt);
}

TEST(Tail, Tail_WhenAGroupFailsAfterAMove_IsRolledBack) {
  const TempState state;
  auto store = open_with(state.dir(), 2);
  commit(*store, {request_row(1), chunk(1, 0, {1}), chunk(1, 1, {2})});
  // The second row of the group breaks a constraint after the tail has moved.
  const core::RowChange bad[] = {chunk(1, 2, {3}), request_row(1)};
  EXPECT_FALSE(store->apply(bad, core::Durability::kFull));
  EXPECT_EQ(rows_in(state, "tail"), "2");
  EXPECT_EQ(rows_in(state, "settled"), "0");
  EXPECT_EQ(store->tokens(1, 0, 0, 2)->ids, (std::vector<TokenId>{1, 2}));
  EXPECT_FALSE(store->tokens(1, 0, 0, 3));
}

TEST(Tail, Tail_WhenTheDiskWasFull_ForgetsTheRefusedTokens) {
  const TempState state;
  OpenOptions options;
  options.state_dir = state.dir();
  options.max_pages = 100;
  auto store = Store::open(options).value();
  commit(*store, {request_row(1), chunk(1, 0, {1})});
  core::InsertRequest big = request_row(2);
  big.payload.meta.assign(1 << 20, 'x');
  const core::RowChange refused[] = {chunk(1, 1, {9}), big};
  EXPECT_EQ(store->apply(refused, core::Durability::kFull).error().code, Errc::kDiskFull);
  commit(*store, {chunk(1, 1, {2})});
  EXPECT_EQ(store->tokens(1, 0, 0, 2)->ids, (std::vector<TokenId>{1, 2}));
}

TEST(Tail, Tail_WhenARequestIsDeleted_DropsItsTokens) {
  const TempState state;
  auto store = open_with(state.dir(), 4096);
  commit(*store, {request_row(1), request_row(2), chunk(1, 0, {1}), chunk(2, 0, {2})});
  commit(*store, {chunk(1, 1, {3}), core::DeleteRequest{1}});
  EXPECT_EQ(rows_in(state, "chunks"), "1");
  EXPECT_FALSE(store->tokens(1, 0, 0, 1));
  store.reset();
  store = open_with(state.dir(), 1);
  commit(*store, {chunk(2, 1, {4})});
  EXPECT_EQ(read_sql(state.db(), "SELECT count(*) FROM chunks WHERE seq=1"), "0");
  EXPECT_EQ(store->tokens(2, 0, 0, 2)->ids, (std::vector<TokenId>{2, 4}));
}

}  // namespace
}  // namespace holdfast::store::tail_test
