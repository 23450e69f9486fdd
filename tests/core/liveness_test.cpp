// Goal: a live worker is never given up because it was silent for a while, a dead, stopped or hung
// one loses its fences at once, and whatever happens each index of a choice is committed once.
// Method: events by hand, as the shell tells what it sees of processes; effects are looked at.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::liveness_test {
namespace {

constexpr PeerId kW1 = 101, kW2 = 102;
constexpr std::int64_t kMs = 1000;
using Process = WorkerHealth::Process;

struct LivenessTest : testing::Test {
  Bench bench;
  void SetUp() override {
    bench.boot();
    bench.add_model();
    bench.connect_worker(kW1, "w1");
  }
  /// One more worker of the same class with the model.
  void add_second(const std::string& numerics = "class-a") {
    bench.connect_worker(kW2, "w2", numerics);
  }
  wire::Dispatch start(const std::string& id, std::int64_t max_tokens = 8) {
    bench.submit(bench.submission(id, max_tokens));
    return bench.dispatch();
  }
  void silent(PeerId peer, std::int64_t silent_ms, std::int64_t unexcused_ms = 0) {
    bench.step(WorkerHealth{peer, Process::kAlive, silent_ms * kMs, unexcused_ms * kMs, 0});
  }
  void stopped(PeerId peer, std::int64_t ms) {
    bench.step(WorkerHealth{peer, Process::kStopped, 0, 0, ms * kMs});
  }
  void ended(PeerId peer) { bench.step(WorkerHealth{peer, Process::kEnded, 0, 0, 0}); }
  void speaks(PeerId peer) { bench.step(WorkerHealth{peer, Process::kAlive, 0, 0, 0}); }
  bool is_suspect(PeerId peer) { return bench.machine.fleet().workers().at(peer).suspect; }
  bool is_lost(PeerId peer) { return bench.machine.fleet().workers().count(peer) == 0; }
  const Counters& counters() { return bench.machine.core().counters; }
};

// ---- suspect

TEST_F(LivenessTest, Suspect_WhenStarvedForAnyTime_RetainsLoadAndFence) {
  const wire::Dispatch d = start("a");
  silent(kW1, 299);
  EXPECT_FALSE(is_suspect(kW1));
  silent(kW1, 300);
  EXPECT_TRUE(is_suspect(kW1));
  silent(kW1, 600'000, 999);  // ten minutes without a processor
  ASSERT_FALSE(is_lost(kW1));
  EXPECT_EQ(counters().suspicions, 1u);
  bench.tokens(kW1, d, 0, {1, 2});
  EXPECT_EQ(bench.stored_ids("a"), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(bench.messages<wire::Ack>(kW1).size(), 1u);
}

TEST_F(LivenessTest, Suspect_WhenItSpeaksAgain_IsReadyAndCountedAsFalse) {
  silent(kW1, 400);
  bench.submit(bench.submission("a"));
  EXPECT_TRUE(bench.dispatches().empty());
  speaks(kW1);
  EXPECT_EQ(bench.dispatch(kW1).request_id, "a");
  EXPECT_EQ(counters().false_suspicions, 1u);
  EXPECT_EQ(counters().workers_lost, 0u);
  speaks(kW1);
  EXPECT_EQ(counters().false_suspicions, 1u);
}

TEST_F(LivenessTest, Suspect_WhenAnotherIsReady_NewWorkGoesThere) {
  silent(kW1, 400);
  add_second();
  bench.submit(bench.submission("a"));
  EXPECT_EQ(bench.dispatch().request_id, "a");
  EXPECT_EQ(bench.dispatches(kW2).size(), 1u);
}

TEST_F(LivenessTest, Suspect_WhileItLoads_RetainsTheLoad) {
  bench.add_model(1024, 4, 64, true, "n");
  const auto loads = bench.messages<wire::Load>(kW1);
  ASSERT_EQ(loads.size(), 1u);
  silent(kW1, 30'000, 900);
  bench.advance_ms(30'000);
  EXPECT_EQ(bench.machine.loads().all().count(loads[0].load_id), 1u);
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  speaks(kW1);
  wire::LoadedModel ready = ready_model(loads[0].load_id);
  ready.model_sha = loads[0].model_sha;
  bench.step(FromWorker{kW1, wire::StateReport{ready}});
  EXPECT_EQ(bench.machine.registry().models().at("n").row.state, ModelState::kReady);
  EXPECT_EQ(bench.machine.registry().models().at("n").failures, 0);
}

TEST_F(LivenessTest, Suspect_WhileItLoads_ItsLoadTimeoutStillHolds) {
  bench.add_model(1024, 4, 64, true, "n");
  const auto loads = bench.messages<wire::Load>(kW1);
  ASSERT_EQ(loads.size(), 1u);
  silent(kW1, 400);
  bench.advance_ms(Config().models_load_timeout_ms + 1);
  EXPECT_EQ(bench.machine.loads().all().count(loads[0].load_id), 0u);
}

TEST_F(LivenessTest, Suspect_GetsNoNewModel) {
  silent(kW1, 400);
  bench.add_model(1024, 4, 64, true, "n");
  EXPECT_TRUE(bench.messages<wire::Load>().empty());
  speaks(kW1);
  EXPECT_EQ(bench.messages<wire::Load>(kW1).size(), 1u);
}

// ---- second attempts

TEST_F(LivenessTest, SecondAttempt_WhenAnotherIsIdle_TakesTheFenceOver) {
  const wire::Dispatch first = start("a");
  bench.tokens(kW1, first, 0, {1, 2});
  add_second();
  silent(kW1, 300);
  const wire::Dispatch second = bench.dispatch(kW2);
  EXPECT_EQ(second.committed_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(first.fence < second.fence);
  const auto cancels = bench.messages<wire::CancelWork>(kW1);
  ASSERT_EQ(cancels.size(), 1u);
  EXPECT_EQ(cancels[0].fence, first.fence);
  bench.tokens(kW1, first, 2, {3});  // it was only starved, and goes on
  EXPECT_EQ(bench.messages<wire::Drop>(kW1).size(), 1u);
  EXPECT_EQ(bench.stored_ids("a"), (std::vector<TokenId>{1, 2}));
  bench.tokens(kW2, second, 2, {3, 4}, FinishReason::kStop);
  EXPECT_EQ(bench.stored_ids("a"), (std::vector<TokenId>{1, 2, 3, 4}));
  EXPECT_EQ(bench.state("a"), RequestState::kSucceeded);
  EXPECT_EQ(counters().second_attempts, 1u);
  EXPECT_EQ(counters().workers_lost, 0u);
}

TEST_F(LivenessTest, SecondAttempt_WhenTheOtherIsBusy_WaitsForItsEnd) {
  start("a");
  add_second();
  const wire::Dispatch other = start("b");
  ASSERT_EQ(bench.dispatches(kW2).size(), 1u);
  silent(kW1, 400);
  EXPECT_TRUE(bench.dispatches().empty());
  bench.tokens(kW2, other, 0, {9}, FinishReason::kStop);
  EXPECT_EQ(bench.dispatch(kW2).request_id, "a");
}

TEST_F(LivenessTest, SecondAttempt_OnAnotherNumericsClass_BeginsOnlyBeforeTheFirstToken) {
  const wire::Dispatch bound = start("bound");
  start("free");
  bench.tokens(kW1, bound, 0, {1});
  add_second("class-b");
  silent(kW1, 400);
  const auto moved = bench.dispatches(kW2);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].request_id, "free");
}

TEST_F(LivenessTest, SecondAttempt_WhenNothingMovedSince_IsNotRepeated) {
  const wire::Dispatch first = start("a");
  add_second();
  silent(kW1, 400);
  const wire::Dispatch second = bench.dispatch(kW2);
  speaks(kW1);
  silent(kW2, 400);  // both are starved: it stays where it is
  EXPECT_TRUE(bench.dispatches().empty());
  speaks(kW2);
  bench.tokens(kW2, second, 0, {1});
  silent(kW2, 400);
  EXPECT_EQ(bench.dispatch(kW1).committed_ids, std::vector<TokenId>{1});
  bench.tokens(kW1, first, 0, {1});  // the first of all attempts: its fence is long over
  EXPECT_EQ(bench.stored_ids("a"), std::vector<TokenId>{1});
}

TEST_F(LivenessTest, SecondAttempt_WhenThereAreMoreThanSlots_TheRestStays) {
  for (int i = 0; i < 4; ++i) start("a" + std::to_string(i));
  bench.step(FromWorker{kW2, bench.hello("w2")});
  bench.make_ready(kW2, "class-a", 2, 64);
  silent(kW1, 400);
  EXPECT_EQ(bench.dispatches(kW2).size(), 2u);
  EXPECT_EQ(bench.machine.lifecycle().running_choices(), 4);
}

TEST_F(LivenessTest, SecondAttempt_WhenTheQueueIsPaused_DoesNotBegin) {
  start("a");
  add_second();
  bench.step(OpPause{Bench::kOperator, 1, true});
  silent(kW1, 400);
  EXPECT_TRUE(bench.dispatches().empty());
}

// ---- lost

TEST_F(LivenessTest, Lost_WhenItsProcessEnded_WorkGoesOnAtOnce) {
  const wire::Dispatch d = start("a");
  bench.tokens(kW1, d, 0, {1});
  add_second();
  ended(kW1);
  EXPECT_TRUE(is_lost(kW1));
  EXPECT_EQ(bench.dispatch(kW2).committed_ids, std::vector<TokenId>{1});
  EXPECT_EQ(counters().workers_lost, 1u);
  bench.step(PeerGone{kW1});
  EXPECT_EQ(counters().workers_lost, 1u);
}

TEST_F(LivenessTest, Lost_WhenItsProcessEnded_TheSupervisorsWordStillCounts) {
  const wire::Dispatch d = start("a");
  const std::int64_t pid = bench.machine.fleet().workers().at(kW1).hello.pid;
  ended(kW1);
  bench.step(WorkerExit{pid, 0, 11, false, {}});
  EXPECT_EQ(bench.machine.request(d.request_id)->choices[0].row.deaths, 1);
}

TEST_F(LivenessTest, Lost_WhenStoppedLongerThanTheBound_LosesItsFences) {
  const wire::Dispatch d = start("a");
  add_second();
  stopped(kW1, 0);
  EXPECT_TRUE(is_suspect(kW1));
  const auto second = bench.dispatches(kW2);
  EXPECT_EQ(second.size(), 1u);  // the other one is idle: no need to wait for the bound
  stopped(kW1, 50);
  EXPECT_TRUE(is_lost(kW1));
  bench.tokens(kW1, d, 0, {7});
  EXPECT_TRUE(bench.stored_ids("a").empty());
}

TEST_F(LivenessTest, Lost_WhenStoppedForLessThanTheBound_NothingHappens) {
  const wire::Dispatch d = start("a");
  stopped(kW1, 49);
  speaks(kW1);
  EXPECT_FALSE(is_suspect(kW1));
  bench.tokens(kW1, d, 0, {7});
  EXPECT_EQ(bench.stored_ids("a"), std::vector<TokenId>{7});
}

TEST_F(LivenessTest, Lost_WhenSilentForASecondWithoutOwnDelay_HasItsWorkRequeued) {
  start("a");
  silent(kW1, 1500, 999);
  EXPECT_FALSE(is_lost(kW1));
  silent(kW1, 1501, 1000);
  EXPECT_TRUE(is_lost(kW1));
  EXPECT_EQ(bench.machine.lifecycle().queued_choices(), 1);
  ASSERT_EQ(bench.machine.fleet().lost_workers().count("w1"), 1u);
  EXPECT_NE(bench.machine.fleet().lost_workers().at("w1").why.find("without waiting"),
            std::string::npos);
}

TEST_F(LivenessTest, Lost_WhenItSpeaksAgain_IsToldOnceToGreetAndRegainsNothing) {
  const wire::Dispatch d = start("a");
  bench.tokens(kW1, d, 0, {1, 2});
  stopped(kW1, 60);
  bench.tokens(kW1, d, 2, {3});
  EXPECT_EQ(bench.stored_ids("a"), (std::vector<TokenId>{1, 2}));
  auto welcomes = bench.messages<wire::Welcome>(kW1);
  ASSERT_EQ(welcomes.size(), 1u);
  EXPECT_TRUE(welcomes[0].greet_again);
  bench.tokens(kW1, d, 3, {4});
  EXPECT_TRUE(bench.messages<wire::Welcome>(kW1).empty());

  wire::Hello hello = bench.hello("w1");
  hello.models = {ready_model(d.load_id)};
  hello.active = {{"a", 0, d.fence, 2, 4, false}};
  bench.step(FromWorker{kW1, hello});
  welcomes = bench.messages<wire::Welcome>(kW1);
  ASSERT_EQ(welcomes.size(), 1u);
  EXPECT_FALSE(welcomes[0].greet_again);
  EXPECT_EQ(bench.messages<wire::Drop>(kW1).size(), 1u);
  EXPECT_TRUE(bench.messages<wire::Load>().empty()) << "it kept its model";
  const wire::Dispatch again = bench.dispatch(kW1);
  EXPECT_EQ(again.committed_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(bench.machine.fleet().lost_workers().empty());
}

TEST_F(LivenessTest, Lost_WhenItIsWellAgainAndHasNothingToSay_IsToldToGreet) {
  stopped(kW1, 60);
  speaks(kW1);
  EXPECT_EQ(bench.messages<wire::Welcome>(kW1).size(), 1u);
}

/// A connection that was taken for gone and is not has a new number.
TEST_F(LivenessTest, Lost_WhenAConnectionSpeaksThatHasNotGreeted_IsToldToGreet) {
  constexpr PeerId kUnknown = 107;
  const wire::Dispatch d = start("a");
  bench.step(PeerGone{kW1});
  bench.tokens(kUnknown, d, 0, {1});
  EXPECT_EQ(bench.messages<wire::Welcome>(kUnknown).size(), 1u);
  EXPECT_TRUE(bench.stored_ids("a").empty());
}

TEST_F(LivenessTest, Lost_WhenStoppedWhileItLoads_GoesOnWithTheLoad) {
  bench.add_model(1024, 4, 64, true, "n");
  const auto loads = bench.messages<wire::Load>(kW1);
  ASSERT_EQ(loads.size(), 1u);
  stopped(kW1, 60);
  ASSERT_EQ(bench.machine.loads().all().count(loads[0].load_id), 1u);
  wire::Hello hello = bench.hello("w1");
  wire::LoadedModel loading = ready_model(loads[0].load_id);
  loading.model_sha = loads[0].model_sha;
  loading.state = "loading";
  hello.models = {loading};
  bench.step(FromWorker{kW1, hello});
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  loading.state = "ready";
  bench.step(FromWorker{kW1, wire::StateReport{loading}});
  EXPECT_EQ(bench.machine.registry().models().at("n").row.state, ModelState::kReady);
}

TEST_F(LivenessTest, Lost_WhenItsConnectionEndsToo_FallsBackToAnOlderConnection) {
  constexpr PeerId kNewer = 103;
  bench.step(FromWorker{kNewer, bench.hello("w1")});  // the live one
  bench.step(FromWorker{kW1, bench.hello("w1")});     // of the dead one, read after it
  silent(kW1, 2000, 1000);
  EXPECT_TRUE(is_lost(kW1));
  bench.step(PeerGone{kW1});
  EXPECT_EQ(bench.machine.fleet().workers().count(kNewer), 1u);
}

}  // namespace
}  // namespace holdfast::core::liveness_test
