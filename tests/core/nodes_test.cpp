// Goal: a node is one machine with one key; its state follows what it says and what an operator
// wants, over restarts of either side; its workers get work only while it takes some, and load only
// files that it has. Method: events by hand; effects and rows are looked at.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::nodes_test {
namespace {

constexpr PeerId kNode = 201, kOther = 202, kWorker = 101;

struct NodesTest : testing::Test {
  Bench bench;
  bool has_file = false;  // the node, of model "m"
  void SetUp() override { bench.boot(); }
  void report(const std::string& name = "n1", PeerId peer = kNode,
              const std::string& incarnation = "i1", bool leaving = false) {
    NodeReport event;
    event.peer = peer;
    event.tag = 1;
    event.name = name;
    event.incarnation = incarnation;
    event.host = "host of " + name;
    event.leaving = leaving;
    event.models.emplace();
    if (has_file) event.models->insert(bench.machine.registry().models().at("m").row.sha);
    bench.step(event);
  }
  void leave(const std::string& name = "n1") {
    NodeReport event;
    event.peer = kNode;
    event.name = name;
    event.incarnation = "i1";
    event.leaving = event.left = true;
    bench.step(event);
  }
  void drain(bool drain, const std::string& name = "n1") {
    bench.step(OpNode{Bench::kOperator, 9, name, drain});
  }
  NodeState state(const std::string& name = "n1") {
    return bench.machine.nodes().all().at(name).state;
  }
  const SendOpResult* answer() {
    for (const Outgoing& out : bench.sent) {
      if (const auto* result = std::get_if<SendOpResult>(&out)) return result;
    }
    return nullptr;
  }
  /// The states of a node in the order in which they were written.
  std::string history(const std::string& name = "n1") {
    std::string text;
    for (const auto& row : bench.written<InsertTransition>()) {
      if (row.subject == "node" && row.key == name) text += (text.empty() ? "" : " ") + row.to;
    }
    return text;
  }
};

TEST_F(NodesTest, Node_FromJoinToFarewell_HasAStateAndARowForEach) {
  report();
  EXPECT_EQ(state(), NodeState::kReady);
  ASSERT_NE(answer(), nullptr);
  EXPECT_TRUE(answer()->ok);
  report();  // a sign of life is no change
  EXPECT_TRUE(bench.rows.empty() || history() == "ready");
  report("n1", kNode, "i1", true);
  EXPECT_EQ(state(), NodeState::kDraining);
  leave();
  EXPECT_EQ(state(), NodeState::kLeft);
  bench.step(PeerGone{kNode});
  EXPECT_EQ(state(), NodeState::kLeft) << "its connection ends after the farewell";
  EXPECT_EQ(history(), "ready draining left");
}

TEST_F(NodesTest, Report_ThatArrivesAfterTheFarewell_BringsNobodyBack) {
  report();
  leave();
  report("n1", kNode, "i1", true);
  ASSERT_NE(answer(), nullptr);
  EXPECT_TRUE(answer()->ok);
  bench.step(PeerGone{kNode});
  EXPECT_EQ(state(), NodeState::kLeft);
  EXPECT_EQ(history(), "ready left");
  report("n1", kOther, "i2");
  EXPECT_EQ(state(), NodeState::kReady) << "its next process is another matter";
}

TEST_F(NodesTest, Node_WhenItsConnectionEndsWithoutFarewell_IsLostUntilItReports) {
  report();
  bench.step(PeerGone{kNode});
  EXPECT_EQ(state(), NodeState::kLost);
  report("n1", kOther);
  EXPECT_EQ(state(), NodeState::kReady);
  EXPECT_EQ(history(), "ready lost ready");
}

TEST_F(NodesTest, SecondMachine_WithTheKeyOfAConnectedNode_IsRefused) {
  report();
  report("n1", kOther, "i2");
  ASSERT_NE(answer(), nullptr);
  EXPECT_FALSE(answer()->ok);
  EXPECT_EQ(answer()->refusal.code, Errc::kConflict);
  EXPECT_NE(answer()->refusal.message.find("host of n1"), std::string::npos);
  EXPECT_EQ(bench.machine.nodes().all().at("n1").peer, kNode);
  bench.step(PeerGone{kNode});
  report("n1", kOther, "i2");
  EXPECT_EQ(state(), NodeState::kReady) << "the first one is gone";
}

TEST_F(NodesTest, SameMachine_OnANewConnection_IsTaken) {
  report();
  report("n1", kOther, "i1");
  EXPECT_TRUE(answer()->ok);
  bench.step(PeerGone{kNode});  // of the old connection, noticed late
  EXPECT_EQ(state(), NodeState::kReady);
}

TEST_F(NodesTest, Drain_OfANode_StopsItsWorkersAndSurvivesRestarts) {
  bench.add_model();
  has_file = true;
  report();
  bench.connect_worker(kWorker, "n1/w");
  drain(true);
  ASSERT_EQ(bench.messages<wire::Drain>(kWorker).size(), 1u);
  EXPECT_FALSE(bench.messages<wire::Drain>(kWorker)[0].resume);
  EXPECT_EQ(state(), NodeState::kDraining);
  bench.submit(bench.submission("a"));
  EXPECT_TRUE(bench.dispatches().empty());

  Bench after;
  Boot boot = bench.database();
  after.boot(boot, 2);
  EXPECT_TRUE(after.machine.nodes().all().at("n1").drained);
  after.connect_worker(kWorker, "n1/w");
  EXPECT_TRUE(after.machine.fleet().workers().at(kWorker).draining);

  drain(false);
  EXPECT_FALSE(bench.machine.fleet().workers().at(kWorker).draining);
  EXPECT_EQ(bench.dispatches(kWorker).size(), 1u) << "what waited goes on";
}

TEST_F(NodesTest, Resume_OfANode_LeavesWorkersThatAnOperatorDrainedDrained) {
  report();
  bench.connect_worker(kWorker, "n1/w");
  bench.step(OpWorker{Bench::kOperator, 8, "n1/w", true});
  drain(true);
  drain(false);
  EXPECT_TRUE(bench.machine.fleet().workers().at(kWorker).draining);
  bench.step(OpWorker{Bench::kOperator, 8, "n1/w", false});
  EXPECT_FALSE(bench.machine.fleet().workers().at(kWorker).draining);
}

TEST_F(NodesTest, Worker_OfADrainedNode_IsNotResumedAlone) {
  report();
  bench.connect_worker(kWorker, "n1/w");
  drain(true);
  bench.step(OpWorker{Bench::kOperator, 8, "n1/w", false});
  EXPECT_TRUE(bench.machine.fleet().workers().at(kWorker).draining);
}

TEST_F(NodesTest, Drain_OfAnUnknownNode_IsNotFound) {
  drain(true, "nobody");
  ASSERT_NE(answer(), nullptr);
  EXPECT_EQ(answer()->refusal.code, Errc::kNotFound);
}

TEST_F(NodesTest, NodesOfBefore_AfterTheAdoptionWindow_AreLost) {
  report();
  Bench after;
  after.boot(bench.database(), 2);
  EXPECT_EQ(after.machine.nodes().all().at("n1").state, NodeState::kReady);
  after.advance_ms(after.machine.config().workers_adoption_window_ms + 1);
  EXPECT_EQ(after.machine.nodes().all().at("n1").state, NodeState::kLost);
}

TEST_F(NodesTest, Placement_OnANodeWithoutTheFile_WaitsUntilItHasIt) {
  bench.add_model();
  const std::string sha = bench.machine.registry().models().at("m").row.sha;
  report();
  wire::Hello hello = bench.hello("n1/w");
  hello.engine = "model";
  bench.step(FromWorker{kWorker, hello});
  EXPECT_TRUE(bench.messages<wire::Load>(kWorker).empty());
  const auto& devices = bench.machine.placement().survey(bench.machine.registry().models().at("m"));
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_NE(devices[0].why.find("node n1 has no file"), std::string::npos) << devices[0].why;
  NodeReport event;
  event.peer = kNode;
  event.name = "n1";
  event.incarnation = "i1";
  event.models = {sha};
  bench.step(event);
  EXPECT_EQ(bench.messages<wire::Load>(kWorker).size(), 1u);
}

TEST_F(NodesTest, WorkerExit_OfANode_IsNotTakenForALocalProcessOfTheSamePid) {
  constexpr PeerId kLocal = 102;
  wire::Hello remote = bench.hello("n1/w");
  wire::Hello local = bench.hello("w");
  remote.pid = local.pid = 4711;
  bench.step(FromWorker{kWorker, remote});
  bench.step(FromWorker{kLocal, local});
  WorkerExit exit;
  exit.pid = 4711;
  exit.signal = 11;
  exit.worker_key = "n1/w";
  bench.step(exit);
  EXPECT_EQ(bench.machine.fleet().workers().count(kWorker), 0u);
  EXPECT_EQ(bench.machine.fleet().workers().count(kLocal), 1u);
  exit.worker_key.clear();
  bench.step(exit);
  EXPECT_EQ(bench.machine.fleet().workers().count(kLocal), 0u);
}

}  // namespace
}  // namespace holdfast::core::nodes_test
