// Goal: what operators do (move, requeue, drain, resume) takes effect at once, outlives a restart
// and loses nothing.
// Method: events by hand; the restart is a second machine booted from the rows of the first.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::operator_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kOperator = Bench::kOperator;

struct OperatorTest : testing::Test {
  Bench bench;
  void ready(std::int32_t slots = 4) {
    bench.boot();
    bench.add_model(1024, slots);
    bench.step(FromWorker{kW1, bench.hello("w1")});
    bench.make_ready(kW1, "class-a", slots);
  }
  Errc refusal() const {
    for (const Outgoing& out : bench.sent) {
      const auto* result = std::get_if<SendOpResult>(&out);
      if (result != nullptr && !result->ok) return result->refusal.code;
    }
    return Errc::kInternal;
  }
  bool done() const {
    for (const Outgoing& out : bench.sent) {
      const auto* result = std::get_if<SendOpResult>(&out);
      if (result != nullptr && result->ok && result->to == kOperator) return true;
    }
    return false;
  }
};

TEST_F(OperatorTest, MovedRequest_WithAHigherPriority_GoesBeforeOlderOnes) {
  ready();
  bench.step(OpPause{kOperator, 1, true});
  EXPECT_EQ(bench.durability, Durability::kFull);
  bench.submit(bench.submission("old"));
  bench.submit(bench.submission("urgent"));
  bench.step(OpMove{kOperator, 2, "urgent", PriorityClass::kInteractive});
  EXPECT_TRUE(done());
  EXPECT_EQ(bench.durability, Durability::kFull);
  EXPECT_EQ(bench.written<UpdateRequest>().back().priority, PriorityClass::kInteractive);
  EXPECT_EQ(bench.machine.lifecycle().info(*bench.machine.request("urgent")).queue_position, 0);
  EXPECT_EQ(bench.machine.lifecycle().info(*bench.machine.request("old")).queue_position, 1);
}

TEST_F(OperatorTest, MovedRequest_AfterARestart_RetainsItsPriorityClass) {
  ready();
  bench.step(OpPause{kOperator, 1, true});
  bench.submit(bench.submission("r1"));
  bench.step(OpMove{kOperator, 2, "r1", PriorityClass::kBatch});
  Bench again;
  again.boot(bench.database(), 2);
  EXPECT_EQ(again.machine.request("r1")->row.priority, PriorityClass::kBatch);
}

TEST_F(OperatorTest, MovedRequest_WhileQuarantined_StaysQuarantined) {
  Config config;
  config.blame_alone_after = 100;
  config.blame_quarantine_after = 1;
  bench = Bench(config);
  ready();
  bench.submit(bench.submission("r1"));
  bench.step(WorkerExit{bench.hello("w1").pid, 0, 11, false});
  ASSERT_EQ(bench.state("r1"), RequestState::kQuarantined);
  bench.step(OpMove{kOperator, 1, "r1", PriorityClass::kInteractive});
  EXPECT_TRUE(done());
  EXPECT_EQ(bench.state("r1"), RequestState::kQuarantined);
  EXPECT_EQ(bench.machine.lifecycle().queued_choices(), 0);
  bench.step(OpPause{kOperator, 2, true});
  bench.submit(bench.submission("r2"));
  bench.step(OpRequeue{kOperator, 3, "r1"});
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  EXPECT_EQ(bench.machine.lifecycle().queued_choices(), 2);
  EXPECT_EQ(bench.machine.lifecycle().info(*bench.machine.request("r1")).queue_position, 0);
  EXPECT_EQ(bench.written<UpdateRequest>().back().error_code, "");
  EXPECT_EQ(bench.written<UpdateChoice>().back().row.deaths_index, -1);
  EXPECT_EQ(bench.machine.lifecycle().quarantined(), 0);
}

TEST_F(OperatorTest, RequeuedRequest_WhenOlderNewOnesWait_GoesFirst) {
  ready(1);
  bench.submit(bench.submission("first"));
  const wire::Dispatch first = bench.dispatch();
  bench.submit(bench.submission("old"));
  bench.submit(bench.submission("young"));
  bench.step(OpMove{kOperator, 1, "young", PriorityClass::kInteractive});
  bench.tokens(kW1, first, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.dispatch().request_id, "young");
  bench.step(OpMove{kOperator, 2, "young", PriorityClass::kNormal});
  bench.step(OpRequeue{kOperator, 3, "young"});
  EXPECT_EQ(bench.dispatch().request_id, "young");
  EXPECT_EQ(bench.state("old"), RequestState::kQueued);
}

TEST_F(OperatorTest, MoveAndRequeue_WhenTheRequestEndedOrIsUnknown_AreRefused) {
  ready();
  bench.submit(bench.submission("r1"));
  bench.step(OpCancel{kOperator, 1, "r1"});
  bench.step(OpMove{kOperator, 2, "r1", PriorityClass::kBatch});
  EXPECT_EQ(refusal(), Errc::kConflict);
  bench.step(OpRequeue{kOperator, 3, "r1"});
  EXPECT_EQ(refusal(), Errc::kConflict);
  EXPECT_EQ(bench.state("r1"), RequestState::kCancelled);
  bench.step(OpRequeue{kOperator, 4, "nobody"});
  EXPECT_EQ(refusal(), Errc::kNotFound);
}

TEST_F(OperatorTest, RequeuedWork_WhenItWasRunning_LosesItsFenceAndRetainsItsTokens) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch first = bench.dispatch(kW1);
  bench.tokens(kW1, first, 0, {5, 6});
  bench.step(OpRequeue{kOperator, 1, "r1"});
  ASSERT_EQ(bench.messages<wire::CancelWork>(kW1).size(), 1u);
  const wire::Dispatch second = bench.dispatch(kW1);
  EXPECT_NE(second.fence, first.fence);
  EXPECT_EQ(second.committed_ids, (std::vector<TokenId>{5, 6}));
  bench.tokens(kW1, first, 2, {99});  // stamped with the old fence: worth nothing
  EXPECT_EQ(bench.stored_ids("r1"), (std::vector<TokenId>{5, 6}));
}

TEST_F(OperatorTest, QuarantinedRequest_WhenReleased_HasACleanRecord) {
  ready();
  bench.submit(bench.submission("r1"));
  PeerId peer = kW1;
  for (std::int64_t death = 0; bench.state("r1") != RequestState::kQuarantined; ++death) {
    ASSERT_LT(death, 20) << "never quarantined";
    // Each time the worker dies of a crash with the request on it, and a new one comes.
    bench.step(WorkerExit{bench.machine.fleet().workers().at(peer).hello.pid, 0, 11, false});
    bench.connect_worker(++peer, "w1");
    bench.advance_ms(5'000);
  }
  bench.step(OpRequeue{kOperator, 1, "r1"});
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
  EXPECT_EQ(bench.written<UpdateChoice>().back().row.deaths, 0);
}

TEST_F(OperatorTest, DrainedWorker_AfterAReconnectOrRestart_GetsNothingNew) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch running = bench.dispatch(kW1);
  bench.step(OpWorker{kOperator, 1, "w1", true});
  EXPECT_EQ(bench.durability, Durability::kFull);
  ASSERT_EQ(bench.messages<wire::Drain>(kW1).size(), 1u);
  bench.submit(bench.submission("r2"));
  EXPECT_TRUE(bench.dispatches().empty());
  bench.tokens(kW1, running, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
  EXPECT_EQ(bench.state("r2"), RequestState::kQueued);

  bench.step(PeerGone{kW1});
  bench.step(FromWorker{kW1 + 1, bench.hello("w1")});  // a reconnect does not forget it
  EXPECT_EQ(bench.messages<wire::Drain>(kW1 + 1).size(), 1u) << "the worker is told again";
  bench.make_ready(kW1 + 1);
  EXPECT_TRUE(bench.machine.fleet().workers().at(kW1 + 1).draining);
  Bench again;
  again.boot(bench.database(), 2);
  again.connect_worker(kW1 + 2, "w1");
  EXPECT_TRUE(again.machine.fleet().workers().at(kW1 + 2).draining);

  bench.step(OpWorker{kOperator, 2, "w1", false});
  EXPECT_FALSE(bench.machine.fleet().workers().at(kW1 + 1).draining);
  bench.step(OpWorker{kOperator, 3, "w9", true});
  EXPECT_EQ(refusal(), Errc::kNotFound);
}

TEST_F(OperatorTest, DrainingWorker_UntilItResumes_GetsNothingNew) {
  ready();
  bench.step(FromWorker{kW1, wire::Drain{}});
  bench.submit(bench.submission("r1"));
  EXPECT_TRUE(bench.dispatches().empty());
  wire::Drain stays;
  stays.resume = true;
  bench.step(FromWorker{kW1, stays});
  EXPECT_EQ(bench.dispatches(kW1).size(), 1u);
}

}  // namespace
}  // namespace holdfast::core::operator_test
