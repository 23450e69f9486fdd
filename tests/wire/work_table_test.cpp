// Goal: a worker never drops or repeats a token towards the daemon, obeys only the newest fence,
// and says so when it cannot go on with something. Method: the pure table, fed with orders and
// made-up engine output; what it would send is applied to a model of the daemon's own rule (fence
// must be current, start must be the next index).

#include <gtest/gtest.h>

#include <random>

#include "worker/link/work_table.h"

namespace holdfast::worker::work_table_test {
namespace {

constexpr std::size_t kAll = 1 << 20;

wire::Dispatch dispatch(std::uint64_t counter, std::vector<wire::TokenId> committed = {}) {
  wire::Dispatch d;
  d.request_id = "r";
  d.load_id = "l";
  d.fence = {1, counter};
  d.prompt_ids = {1, 2};
  d.committed_ids = std::move(committed);
  d.max_tokens = 100;
  return d;
}

engine::Produced produced(engine::SequenceKey key, std::int64_t start,
                          std::vector<wire::TokenId> ids,
                          wire::FinishReason finish = wire::FinishReason::kNone) {
  engine::Produced p;
  p.key = key;
  p.start = start;
  p.ids = std::move(ids);
  p.finish = finish;
  return p;
}

/// The orders' kinds as letters: Add, Cancel, Pause, Resume.
std::string kinds(const std::vector<Order>& orders) {
  std::string out;
  for (const Order& order : orders) out.push_back("ACPR"[static_cast<int>(order.kind)]);
  return out;
}

struct Fixture : ::testing::Test {
  WorkTable table{8};
  engine::SequenceKey key = 0;

  void start(const wire::Dispatch& d) {
    table.dispatch(d, 0);
    const auto orders = table.take_orders();
    ASSERT_EQ(orders.back().kind, Order::Kind::kAdd);
    key = orders.back().key;
  }
  wire::Tokens send() {
    wire::Tokens tokens = table.unsent(kAll);
    table.mark_sent(tokens);
    return tokens;
  }
};
using Table = Fixture;

TEST_F(Table, TokenRing_WhenAcknowledged_SendsOnceAndFreesTokens) {
  start(dispatch(1));
  table.produced(produced(key, 0, {10, 11}));
  wire::Tokens sent = send();
  ASSERT_EQ(sent.events.size(), 1u);
  EXPECT_EQ(sent.events[0].ids, (std::vector<wire::TokenId>{10, 11}));
  EXPECT_TRUE(send().events.empty());
  table.produced(produced(key, 2, {12}, wire::FinishReason::kStop));
  sent = send();
  ASSERT_EQ(sent.events.size(), 1u);
  EXPECT_EQ(sent.events[0].start, 2);
  EXPECT_EQ(sent.events[0].finish, wire::FinishReason::kStop);
  table.ack({"r", 0, {1, 1}, 3, false});
  ASSERT_EQ(table.active().size(), 1u);
  EXPECT_EQ(table.active()[0].first_unacked, 3);
  EXPECT_TRUE(table.active()[0].finished) << "the finish is not acknowledged yet";
  table.ack({"r", 0, {1, 1}, 3, true});
  EXPECT_TRUE(table.empty());
}

TEST_F(Table, TokensMessage_WhenExtrasAreLarge_IsSplit) {
  constexpr std::size_t kBytes = 5 << 20;
  std::vector<engine::SequenceKey> keys;
  for (std::int32_t choice = 0; choice < 4; ++choice) {
    wire::Dispatch d = dispatch(1);
    d.choice = choice;
    start(d);
    keys.push_back(key);
  }
  for (const engine::SequenceKey each : keys) {
    engine::Produced p = produced(each, 0, {10});
    p.extra = {std::string(kBytes, 'x')};
    table.produced(p);
  }
  std::vector<std::size_t> events;
  for (wire::Tokens sent = send(); !sent.events.empty(); sent = send()) {
    events.push_back(sent.events.size());
    for (const wire::TokenEvent& event : sent.events) EXPECT_EQ(event.extra[0].size(), kBytes);
  }
  EXPECT_EQ(events, (std::vector<std::size_t>{2, 2}));
}

TEST_F(Table, FinishReason_WithoutAToken_IsSent) {
  start(dispatch(1, {7}));
  table.produced(produced(key, 1, {8}));
  EXPECT_EQ(send().events.size(), 1u);
  table.produced(produced(key, 2, {}, wire::FinishReason::kLength));
  const wire::Tokens sent = send();
  ASSERT_EQ(sent.events.size(), 1u);
  EXPECT_EQ(sent.events[0].start, 2);
  EXPECT_TRUE(send().events.empty());
}

TEST_F(Table, Adoption_WithNewFence_RestampsAndResendsTheRing) {
  start(dispatch(1));
  table.produced(produced(key, 0, {10, 11, 12}));
  send();
  table.connection_lost();
  table.produced(produced(key, 3, {13}));
  EXPECT_TRUE(table.unsent(kAll).events.empty()) << "not adopted on the new connection";
  table.adopt({"r", 0, {2, 1}, 1});
  const wire::Tokens sent = send();
  ASSERT_EQ(sent.events.size(), 1u);
  EXPECT_EQ(sent.events[0].fence, (wire::Fence{2, 1}));
  EXPECT_EQ(sent.events[0].start, 1);
  EXPECT_EQ(sent.events[0].ids, (std::vector<wire::TokenId>{11, 12, 13}));
  EXPECT_EQ(kinds(table.take_orders()), "") << "nothing is computed again";
  table.ack({"r", 0, {1, 1}, 4, true});
  EXPECT_FALSE(table.empty()) << "an acknowledgement under the old fence";
  table.adopt({"r", 0, {1, 9}, 0});  // late, of the previous daemon
  table.adopt({"r", 0, {1, 9}, 9});
  EXPECT_TRUE(table.take_returned().empty());
  ASSERT_EQ(table.active().size(), 1u);
  EXPECT_EQ(table.active()[0].fence, (wire::Fence{2, 1}));
}

TEST_F(Table, Adoption_WhenIndexIsOutsideTheRing_IsReturned) {
  start(dispatch(1, {1, 2, 3}));
  table.produced(produced(key, 3, {4}));
  table.connection_lost();
  table.adopt({"r", 0, {2, 1}, 5});  // another worker was faster
  auto returned = table.take_returned();
  ASSERT_EQ(returned.size(), 1u);
  EXPECT_EQ(returned[0].fence, (wire::Fence{2, 1}));
  EXPECT_EQ(kinds(table.take_orders()), "C");
  EXPECT_TRUE(table.empty());
  start(dispatch(2, {1, 2, 3}));
  table.adopt({"r", 0, {2, 1}, 2});  // the daemon lost tokens that the table has dropped
  EXPECT_EQ(table.take_returned().size(), 1u);
  table.adopt({"x", 0, {2, 1}, 0});
  returned = table.take_returned();
  ASSERT_EQ(returned.size(), 1u) << "never heard of it";
  EXPECT_EQ(returned[0].request_id, "x");
}

TEST_F(Table, Dispatch_WhenSequenceIsActive_IsIgnoredRestampedOrRestarted) {
  start(dispatch(2));
  table.produced(produced(key, 0, {10, 11, 12}));
  send();
  table.dispatch(dispatch(2), 0);
  table.dispatch(dispatch(1), 0);
  EXPECT_EQ(kinds(table.take_orders()), "");
  EXPECT_TRUE(send().events.empty());
  table.dispatch(dispatch(3, {10}), 0);  // newer: the fence is replaced
  EXPECT_EQ(kinds(table.take_orders()), "");
  const wire::Tokens sent = send();
  ASSERT_EQ(sent.events.size(), 1u);
  EXPECT_EQ(sent.events[0].fence, (wire::Fence{1, 3}));
  EXPECT_EQ(sent.events[0].start, 1);
  table.dispatch(dispatch(4, {10, 11, 12, 13}), 0);  // ahead of the table: started again
  EXPECT_EQ(kinds(table.take_orders()), "CA");
}

TEST_F(Table, TokenRing_WhenFull_PausesUntilAcknowledged) {
  start(dispatch(1));
  table.produced(produced(key, 0, {0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(kinds(table.take_orders()), "");
  table.produced(produced(key, 7, {7}));
  EXPECT_EQ(kinds(table.take_orders()), "P");
  EXPECT_FALSE(table.is_generating());
  table.produced(produced(key, 8, {8}));  // was already under way
  EXPECT_EQ(kinds(table.take_orders()), "");
  table.ack({"r", 0, {1, 1}, 4, false});
  EXPECT_EQ(kinds(table.take_orders()), "") << "more than half is still there";
  table.ack({"r", 0, {1, 1}, 5, false});
  EXPECT_EQ(kinds(table.take_orders()), "R");
  EXPECT_EQ(table.active()[0].next_index, 9) << "nothing was dropped";
}

TEST_F(Table, Cancel_WithOldFence_IsIgnoredAndDropEndsAll) {
  start(dispatch(5));
  table.cancel({"r", 0, {1, 4}});
  EXPECT_FALSE(table.empty());
  table.cancel({"r", 0, {1, 5}});
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(kinds(table.take_orders()), "C");
  table.produced(produced(key, 0, {1}));  // was already under way
  EXPECT_TRUE(table.empty());
  start(dispatch(6));
  table.drop({"r", 0, ""});
  EXPECT_TRUE(table.empty());
}

TEST_F(Table, EngineRefusal_WhenTransient_IsReturnedAndFinalEndsTheChoice) {
  start(dispatch(1));
  table.add_failed(key, {Errc::kRateLimited, "no slot"});
  const auto returned = table.take_returned();
  ASSERT_EQ(returned.size(), 1u);
  EXPECT_EQ(returned[0].reason, "rate_limited: no slot");
  EXPECT_TRUE(table.empty());
  start(dispatch(2, {9}));
  table.add_failed(key, {Errc::kContextExceeded, "too long"});
  const wire::Tokens sent = send();
  ASSERT_EQ(sent.events.size(), 1u);
  EXPECT_EQ(sent.events[0].finish, wire::FinishReason::kError);
  EXPECT_EQ(sent.events[0].error_code, "context_exceeded");
  EXPECT_EQ(sent.events[0].start, 1);
}

TEST_F(Table, Choice_WhenDeadlinePasses_EndsAsExpired) {
  wire::Dispatch d = dispatch(1);
  d.time_left_ms = 5;
  start(d);
  table.expire(4'999);
  EXPECT_TRUE(send().events.empty());
  table.expire(5'000);
  EXPECT_EQ(kinds(table.take_orders()), "C");
  const wire::Tokens sent = send();
  ASSERT_EQ(sent.events.size(), 1u);
  EXPECT_EQ(sent.events[0].finish, wire::FinishReason::kExpired);
}

TEST_F(Table, ReturnUnfinished_WhenAChoiceIsFinished_RetainsIt) {
  start(dispatch(1));
  table.produced(produced(key, 0, {1}, wire::FinishReason::kStop));
  wire::Dispatch other = dispatch(2);
  other.choice = 1;
  start(other);
  table.return_unfinished("", "end");
  EXPECT_EQ(table.take_returned().size(), 1u);
  ASSERT_EQ(table.active().size(), 1u);
  EXPECT_TRUE(table.active()[0].finished);
}

TEST_F(Table, TokenRing_WhenLarge_IsSentInParts) {
  start(dispatch(1));
  table.produced(produced(key, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, wire::FinishReason::kStop));
  std::vector<wire::TokenId> got;
  for (int i = 0; i < 10; ++i) {
    const wire::Tokens part = table.unsent(4);
    if (part.events.empty()) break;
    ASSERT_LE(part.events[0].ids.size(), 4u);
    EXPECT_EQ(part.events[0].start, static_cast<std::int64_t>(got.size()));
    got.insert(got.end(), part.events[0].ids.begin(), part.events[0].ids.end());
    EXPECT_EQ(part.events[0].finish != wire::FinishReason::kNone, got.size() == 10);
    table.mark_sent(part);
  }
  EXPECT_EQ(got.size(), 10u);
}

// Random histories under the daemon's rule: losses of the connection, daemons that have committed
// only a part, acknowledgements at any time. Every token must be committed once, in order.
TEST(TableHistories, Tokens_WithRandomConnectionLosses_AreCommittedOnceInOrder) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    WorkTable table(16);
    wire::Fence fence{1, 1};
    std::vector<wire::TokenId> committed;
    engine::SequenceKey key = 0;
    std::int64_t made = 0;
    bool paused = false;
    const auto carry_out = [&] {
      for (const Order& o : table.take_orders()) {
        if (o.kind == Order::Kind::kAdd) {
          key = o.key;
          made = static_cast<std::int64_t>(o.spec.committed.size());
          paused = false;
        }
        paused = o.kind != Order::Kind::kResume && (paused || o.kind == Order::Kind::kPause);
      }
    };
    table.dispatch(dispatch(1), 0);
    for (int i = 0; i < 400; ++i) {
      carry_out();
      switch (random() % 8) {
        case 0: {  // the connection goes and comes back; the daemon adopts
          table.connection_lost();
          ++fence.counter;
          table.adopt({"r", 0, fence, static_cast<std::int64_t>(committed.size())});
          ASSERT_TRUE(table.take_returned().empty());
          break;
        }
        case 1:
          ++fence.counter;
          table.dispatch(dispatch(fence.counter, committed), 0);
          break;
        case 2:
        case 3: {
          wire::Tokens tokens = table.unsent(1 + random() % 20);
          table.mark_sent(tokens);
          if (random() % 4 == 0) break;  // lost inside the dying connection …
          for (const wire::TokenEvent& e : tokens.events) {
            ASSERT_EQ(e.fence, fence);
            ASSERT_LE(e.start, static_cast<std::int64_t>(committed.size()) + 1'000);
            if (e.start != static_cast<std::int64_t>(committed.size())) break;  // … so a gap
            committed.insert(committed.end(), e.ids.begin(), e.ids.end());
          }
          break;
        }
        case 4:
          table.ack({"r", 0, fence, static_cast<std::int64_t>(committed.size()), false});
          break;
        default: {
          const auto n = static_cast<std::int64_t>(random() % 4);
          if (paused) break;
          std::vector<wire::TokenId> ids;
          for (std::int64_t t = 0; t < n; ++t) {
            ids.push_back(static_cast<wire::TokenId>(made + t));
          }
          table.produced(produced(key, made, ids));
          made += n;
          const auto active = table.active();
          ASSERT_LE(active[0].next_index - active[0].first_unacked, 16 + 3);
        }
      }
    }
    for (std::size_t i = 0; i < committed.size(); ++i) {
      ASSERT_EQ(committed[i], static_cast<wire::TokenId>(i)) << "seed " << seed;
    }
    ASSERT_GT(committed.size(), 20u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace holdfast::worker::work_table_test
