// Goal: a machine whose datagrams stop is suspect and then lost, as a worker is, so that its work
// goes on elsewhere in time; one that was only slow, or that shows in another way that it is there,
// loses nothing; nobody is blamed. Method: events by hand with times of their own.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::nodes_liveness_test {
namespace {

constexpr PeerId kNode = 201;
constexpr PeerId kHere = 101, kThere = 102;
constexpr std::int64_t kMs = 1000;

struct NodesLivenessTest : testing::Test {
  Bench bench;
  void SetUp() override {
    bench.boot();
    bench.add_model();
    report();
    bench.connect_worker(kThere, "n1/w");
  }
  void report(PeerId peer = kNode, bool leaving = false) {
    NodeReport event;
    event.peer = peer;
    event.tag = 1;
    event.name = "n1";
    event.incarnation = "i1";
    event.leaving = leaving;
    event.models.emplace();
    event.models->insert(bench.machine.registry().models().at("m").row.sha);
    bench.step(event);
  }
  void add_other() { bench.connect_worker(kHere, "w"); }
  wire::Dispatch start(const std::string& id) {
    bench.submit(bench.submission(id));
    return bench.dispatch(kThere);
  }
  void quiet(std::int64_t silent_ms, std::int64_t deaf_ms = 0, std::int64_t delay_ms = 0) {
    bench.step(NodeHealth{"n1", silent_ms * kMs, deaf_ms * kMs, delay_ms * kMs, 0, 0});
  }
  void well() { quiet(3); }
  void say_something() { bench.step(FromWorker{kThere, wire::WorkerStats{}}); }
  const Node& node() { return bench.machine.nodes().all().at("n1"); }
  bool is_suspect() {
    const auto worker = bench.machine.fleet().workers().find(kThere);
    return worker != bench.machine.fleet().workers().end() && worker->second.suspect;
  }
  bool is_lost() { return !bench.machine.fleet().workers().contains(kThere); }
  const Counters& counters() { return bench.machine.core().counters; }
};

TEST_F(NodesLivenessTest, Node_WithoutDatagrams_IsJudgedByItsConnectionAlone) {
  EXPECT_EQ(node().signs.liveness, Liveness::kTcp);
  bench.advance_ms(60'000);
  EXPECT_EQ(node().state, NodeState::kReady);
  EXPECT_FALSE(is_suspect());
  well();
  EXPECT_EQ(node().signs.liveness, Liveness::kDatagrams);
}

TEST_F(NodesLivenessTest, Silence_UntilTheFirstBound_ChangesNothing) {
  well();
  quiet(64);
  EXPECT_FALSE(is_suspect());
  EXPECT_EQ(counters().node_suspicions, 0u);
}

TEST_F(NodesLivenessTest, Silence_BeyondTheFirstBound_BeginsTheWorkOnAnIdleWorkerAgain) {
  const wire::Dispatch first = start("a");
  add_other();
  quiet(65);
  EXPECT_TRUE(is_suspect());
  EXPECT_FALSE(is_lost());
  EXPECT_EQ(node().state, NodeState::kReady) << "it is lost later";
  const wire::Dispatch second = bench.dispatch(kHere);
  EXPECT_TRUE(first.fence < second.fence);
  bench.tokens(kThere, first, 0, {9});
  EXPECT_TRUE(bench.stored_ids("a").empty()) << "its fence is over";
  bench.tokens(kHere, second, 0, {1, 2}, FinishReason::kStop);
  EXPECT_EQ(bench.stored_ids("a"), (std::vector<TokenId>{1, 2}));
}

TEST_F(NodesLivenessTest, Silence_BeyondTheSecondBound_LosesNodeAndWorkersWithoutBlame) {
  start("a");
  quiet(70);
  EXPECT_FALSE(is_lost());
  quiet(90);
  EXPECT_TRUE(is_lost());
  EXPECT_EQ(node().state, NodeState::kLost);
  EXPECT_NE(node().why.find("no datagram of it for 90 ms"), std::string::npos) << node().why;
  EXPECT_EQ(bench.machine.lifecycle().queued_choices(), 1);
  EXPECT_EQ(bench.machine.request("a")->choices[0].row.deaths, 0);
  EXPECT_EQ(counters().node_suspicions, 1u);
  EXPECT_EQ(counters().workers_lost, 1u);
  quiet(200);
  EXPECT_EQ(counters().workers_lost, 1u);
}

TEST_F(NodesLivenessTest, Node_WhoseDatagramsArriveAgain_IsReadyAndItsWorkersGreetAgain) {
  const wire::Dispatch first = start("a");
  quiet(95);
  ASSERT_TRUE(is_lost());
  well();
  EXPECT_EQ(node().state, NodeState::kReady);
  const auto welcomes = bench.messages<wire::Welcome>(kThere);
  ASSERT_EQ(welcomes.size(), 1u);
  EXPECT_TRUE(welcomes[0].greet_again);
  EXPECT_EQ(counters().node_false_alarms, 1u);
  EXPECT_EQ(node().signs.false_alarms, 1u);
  wire::Hello hello = bench.hello("n1/w");
  hello.models = {ready_model(first.load_id)};
  bench.step(FromWorker{kThere, hello});
  EXPECT_EQ(bench.dispatch(kThere).request_id, "a") << "it goes on where its weights are";
  well();
  EXPECT_EQ(counters().node_false_alarms, 1u);
}

TEST_F(NodesLivenessTest, Suspicion_ThatWasFalse_LeavesTheWorkWhereItIs) {
  const wire::Dispatch d = start("a");
  quiet(80);
  EXPECT_TRUE(is_suspect());
  bench.submit(bench.submission("b"));
  EXPECT_TRUE(bench.dispatches().empty()) << "a suspect one gets nothing new";
  well();
  EXPECT_FALSE(is_suspect());
  EXPECT_EQ(bench.dispatch(kThere).request_id, "b");
  bench.tokens(kThere, d, 0, {7});
  EXPECT_EQ(bench.stored_ids("a"), std::vector<TokenId>{7});
  EXPECT_EQ(counters().workers_lost, 0u);
}

TEST_F(NodesLivenessTest, Worker_ThatSpeaksWhileItsNodeIsSilent_IsJudgedByItsConnection) {
  start("a");
  quiet(65);
  EXPECT_TRUE(is_suspect());
  bench.advance_ms(5);
  say_something();
  quiet(75);
  EXPECT_FALSE(is_suspect());
  quiet(400);
  EXPECT_FALSE(is_lost());
  EXPECT_EQ(node().state, NodeState::kLost) << "of the node itself nothing is heard";
}

TEST_F(NodesLivenessTest, Worker_ThatSpokeBeforeTheSuspicion_IsLostWithItsNode) {
  start("a");
  say_something();
  quiet(65);
  quiet(90);
  EXPECT_TRUE(is_lost());
}

TEST_F(NodesLivenessTest, Node_ThatHearsNothing_IsLostThoughItAndItsWorkersSpeak) {
  start("a");
  quiet(5, 66);
  EXPECT_TRUE(is_suspect());
  bench.advance_ms(5);
  say_something();
  quiet(5, 91);
  EXPECT_TRUE(is_lost());
  EXPECT_NE(node().why.find("none of our datagrams reached it"), std::string::npos) << node().why;
}

TEST_F(NodesLivenessTest, Node_ThatWaitedForAProcessorLately_GetsTwiceThatTime) {
  quiet(120, 0, 30);
  EXPECT_FALSE(is_suspect());
  quiet(125, 0, 30);
  EXPECT_TRUE(is_suspect());
  well();
  quiet(264, 0, 10'000);
  EXPECT_FALSE(is_suspect());
  quiet(265, 0, 10'000);
  EXPECT_TRUE(is_suspect()) << "there is an end to it";
}

TEST_F(NodesLivenessTest, Worker_ThatIsSilentItself_StaysSuspectWhenItsNodeIsWell) {
  bench.step(WorkerHealth{kThere, WorkerHealth::Process::kAlive, 400 * kMs, 0, 0});
  quiet(70);
  well();
  EXPECT_TRUE(is_suspect());
  quiet(70);
  bench.step(WorkerHealth{kThere, WorkerHealth::Process::kAlive, 0, 0, 0});
  EXPECT_TRUE(is_suspect()) << "its node is silent still";
  well();
  EXPECT_FALSE(is_suspect());
}

TEST_F(NodesLivenessTest, Report_ThatWasUnderWay_DoesNotBringASilentNodeBack) {
  quiet(95);
  bench.advance_ms(10);
  report();
  EXPECT_EQ(node().state, NodeState::kLost);
  bench.step(OpNode{Bench::kOperator, 9, "n1", false});
  EXPECT_EQ(node().state, NodeState::kLost) << "an operator does not either";
}

TEST_F(NodesLivenessTest, Datagrams_ThatStopWhileReportsGoOn_AreNoLongerJudged) {
  quiet(95);
  for (int i = 0; i < 2; ++i) {
    bench.advance_ms(1'100);
    report();
    EXPECT_EQ(node().state, NodeState::kLost);
  }
  bench.advance_ms(1'100);
  report();
  EXPECT_EQ(node().state, NodeState::kReady);
  EXPECT_EQ(node().signs.liveness, Liveness::kTcp);
  quiet(5'000);
  EXPECT_EQ(node().state, NodeState::kReady);
  EXPECT_EQ(counters().node_suspicions, 1u);
  well();
  EXPECT_EQ(node().signs.liveness, Liveness::kDatagrams);
  quiet(95);
  EXPECT_EQ(node().state, NodeState::kLost) << "they are judged again";
}

TEST_F(NodesLivenessTest, Reports_ThatArriveAtOnce_SayNothingAboutTheCable) {
  quiet(95);
  for (int i = 0; i < 5; ++i) report();
  EXPECT_EQ(node().state, NodeState::kLost) << "they may have waited for the cable";
}

TEST_F(NodesLivenessTest, Connection_OfASilentNodeThatEnds_LeavesItsWorkersToTheirOwn) {
  start("a");
  quiet(70);
  EXPECT_TRUE(is_suspect());
  bench.step(PeerGone{kNode});
  EXPECT_EQ(node().state, NodeState::kLost);
  EXPECT_FALSE(is_suspect());
  quiet(500);
  EXPECT_FALSE(is_suspect()) << "its session is over";
  report(203);
  EXPECT_EQ(node().state, NodeState::kReady);
  EXPECT_EQ(node().signs.liveness, Liveness::kTcp);
}

TEST_F(NodesLivenessTest, Node_ThatDrains_DrainsStillAfterItsSilence) {
  report(kNode, true);
  quiet(95);
  EXPECT_EQ(node().state, NodeState::kLost);
  well();
  EXPECT_EQ(node().state, NodeState::kDraining);
}

TEST_F(NodesLivenessTest, Health_OfANodeThatIsNotThere_IsNothing) {
  bench.step(NodeHealth{"nobody", 500 * kMs, 0, 0, 0, 0});
  EXPECT_EQ(counters().node_suspicions, 0u);
  EXPECT_EQ(bench.machine.nodes().all().count("nobody"), 0u);
}

}  // namespace
}  // namespace holdfast::core::nodes_liveness_test
