// Goal: a request waits for the numerics class that its first token came from, for as long as that
// is away and not longer, however often its workers come and go.
// Method: one worker that goes, comes back or stays away, on a machine whose limit is ten seconds.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::class_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kW2 = 102;

Config ten_seconds() {
  Config config;
  config.requests_class_wait_ms = 10'000;
  config.workers_reconnect_ms = 100;
  return config;
}

struct NumericsClassTest : testing::Test {
  Bench bench{ten_seconds()};
  void SetUp() override {
    bench.boot();
    bench.add_model();
    bench.connect_worker(kW1, "w1");
    bench.submit(bench.submission("r1"));
    bench.tokens(kW1, bench.dispatch(kW1), 0, {1});
  }
  /// Ends the worker's process; a moment later its load is over.
  void lose(PeerId peer) {
    bench.step(PeerGone{peer});
    bench.advance_ms(100);
  }
};

TEST_F(NumericsClassTest, Request_WhenItsNumericsClassStaysAway_FailsAtTheLimit) {
  lose(kW1);
  bench.advance_ms(9'890);
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  bench.advance_ms(200);
  EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
  EXPECT_EQ(bench.machine.request("r1")->row.error_code, "determinism_class_unavailable");
}

TEST_F(NumericsClassTest, ClassWait_WhenTheClassReturnedMeanwhile_BeginsAgain) {
  lose(kW1);
  bench.step(OpPause{Bench::kOperator, 1, true});
  bench.advance_ms(8'000);
  bench.connect_worker(kW2, "w2");
  bench.advance_ms(1'000);
  lose(kW2);
  bench.advance_ms(2'000);  // ten seconds after it was queued, two after the class was last there
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  bench.advance_ms(8'100);
  EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
}

TEST_F(NumericsClassTest, ClassWait_WhenTheLastLoadOfTheClassEnds_Begins) {
  bench.step(OpPause{Bench::kOperator, 1, true});
  bench.step(OpRequeue{Bench::kOperator, 2, "r1"});
  bench.advance_ms(9'000);  // it waits, and its class is there
  lose(kW1);
  bench.advance_ms(9'900);
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  bench.advance_ms(99);
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  bench.advance_ms(1);
  EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
}

TEST_F(NumericsClassTest, ClassWait_WhenTheClassIsServedAtTheLimit_IsCheckedAgain) {
  lose(kW1);
  bench.step(OpPause{Bench::kOperator, 1, true});
  bench.connect_worker(kW2, "w2");
  bench.advance_ms(10'500);
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  lose(kW2);
  bench.advance_ms(11'000);
  bench.advance_ms(11'000);
  EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
}

/// A class that gives no new work while one of the request's choices still runs there: the end of
/// that is waited for, and the time of the other choice begins then.
TEST_F(NumericsClassTest, ClassWait_WhileAChoiceRunsOnADrainingLoad_DoesNotBegin) {
  wire::Submit two = bench.submission("two");
  two.n = 2;
  bench.submit(two);
  const auto sent = bench.dispatches(kW1);
  ASSERT_EQ(sent.size(), 2u);
  bench.tokens(kW1, sent[0], 0, {1});
  wire::Returned back;
  back.request_id = "two";
  back.choice = sent[1].choice;
  back.fence = sent[1].fence;
  bench.step(FromWorker{kW1, back});
  bench.step(OpModel{Bench::kOperator, 1, "models.unload", "m"});
  ASSERT_EQ(bench.machine.loads().all().begin()->second.row.state, ModelState::kDraining);
  bench.advance_ms(11'000);
  EXPECT_EQ(bench.state("two"), RequestState::kRunning);
  bench.tokens(kW1, sent[0], 1, {2}, FinishReason::kStop);
  EXPECT_EQ(bench.state("two"), RequestState::kQueued);
  bench.advance_ms(11'000);
  EXPECT_EQ(bench.state("two"), RequestState::kFailed);
  EXPECT_EQ(bench.machine.request("two")->row.error_code, "determinism_class_unavailable");
}

}  // namespace
}  // namespace holdfast::core::class_test
