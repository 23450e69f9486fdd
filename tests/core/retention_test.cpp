// Goal: ended requests leave when their time is over or room is needed, and never a live one, one
// that is being streamed, or one whose key must still find it.
// Method: Sweep events with rows of chosen ages.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::retention_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr std::int64_t kHourMs = 3'600'000;

struct RetentionTest : testing::Test {
  Bench bench;
  void SetUp() override {
    bench.boot();
    bench.add_model();
    bench.connect_worker(kW1, "w1");
  }
  Seq run(const std::string& id) {
    bench.submit(bench.submission(id));
    const wire::Dispatch d = bench.dispatch(kW1);
    bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
    return bench.machine.request(id)->row.seq;
  }
  std::vector<Seq> sweep(std::vector<Sweep::Row> rows, std::int64_t used = 0) {
    bench.rows.clear();
    bench.step(Sweep{std::move(rows), used});
    std::vector<Seq> gone;
    for (const DeleteRequest& row : bench.written<DeleteRequest>()) gone.push_back(row.seq);
    return gone;
  }
  std::int64_t hours_ago(std::int64_t hours) const { return bench.now.wall_ms - hours * kHourMs; }
};

TEST_F(RetentionTest, Request_WhenOlderThanTheRetentionTime_IsDeleted) {
  EXPECT_EQ(sweep({{1, hours_ago(169)}, {2, hours_ago(167)}, {3, 0}, {4, hours_ago(168)}}),
            (std::vector<Seq>{1, 4}));
  EXPECT_EQ(bench.durability, Durability::kNormal);
}

TEST_F(RetentionTest, Request_WhenTheStoreIsTooLarge_IsDeletedAfterItsKeysTime) {
  EXPECT_EQ(sweep({{1, hours_ago(25)}, {2, hours_ago(23)}}, 9LL << 30), (std::vector<Seq>{1}));
  EXPECT_TRUE(sweep({{1, hours_ago(25)}}, 7LL << 30).empty());
}

TEST_F(RetentionTest, Request_WhenRetentionByAgeIsOff_IsNotDeleted) {
  bench.step(OpConfig{Bench::kOperator, 1, "config.set", "ann", {{"retention.hours", "0"}}, {}});
  EXPECT_TRUE(sweep({{1, hours_ago(9999)}}).empty());
}

TEST_F(RetentionTest, Request_WhileStreamed_IsNotDeleted) {
  const Seq streamed = run("streamed");
  const Seq other = run("other");
  wire::Attach attach;
  attach.tag = 5;
  attach.request_id = "streamed";
  attach.window = 100;
  attach.from = {0};
  // Attached, and its FIN not taken: the socket is full.
  bench.step(FromClient{Bench::kClient, attach});
  ASSERT_EQ(bench.machine.request("streamed")->subscribers, 1);
  EXPECT_EQ(sweep({{streamed, hours_ago(200)}, {other, hours_ago(200)}}),
            (std::vector<Seq>{other}));
  EXPECT_FALSE(bench.machine.knows_id("other"));
  EXPECT_TRUE(bench.machine.knows_id("streamed"));
}

TEST_F(RetentionTest, LiveRequest_WithAnOldRow_IsNotDeleted) {
  bench.submit(bench.submission("live"));
  const Seq seq = bench.machine.request("live")->row.seq;
  EXPECT_TRUE(sweep({{seq, hours_ago(9999)}}).empty());
}

}  // namespace
}  // namespace holdfast::core::retention_test
