// Goal: a death is charged only to what was in the step that was running, only for causes from
// inside, and only to what has not moved since.
// Method: events by hand; the record is read from the rows.
#include <gtest/gtest.h>

#include "control/core/blame.h"
#include "shared/base/progress.h"
#include "shared/base/step_journal.h"
#include "tests/core/bench_machine.h"

namespace holdfast::core::blame_test {
namespace {

constexpr PeerId kW1 = 101;

struct BlameTest : testing::Test {
  Bench bench;
  void SetUp() override {
    bench.boot();
    bench.add_model();
    bench.connect_worker(kW1, "w1");
    bench.submit(bench.submission("in-step"));
    bench.submit(bench.submission("beside"));
  }
  void die(WorkerExit exit) {
    exit.pid = bench.machine.fleet().workers().at(kW1).hello.pid;
    bench.step(std::move(exit));
  }
  std::int32_t deaths(const std::string& id) {
    return bench.machine.request(id)->choices[0].row.deaths;
  }
};

TEST_F(BlameTest, Crash_WithAStepJournal_CountsForTheStepsRequestsOnly) {
  WorkerExit crash{0, 0, 11, false, {}};
  crash.step.emplace({step_mark("in-step", 0)});
  die(crash);
  EXPECT_EQ(deaths("in-step"), 1);
  EXPECT_EQ(deaths("beside"), 0);
}

TEST_F(BlameTest, Crash_BetweenSteps_CountsForNoRequest) {
  WorkerExit crash{0, 0, 11, false, {}};
  crash.step.emplace();
  die(crash);
  EXPECT_EQ(deaths("in-step"), 0);
  EXPECT_EQ(deaths("beside"), 0);
}

TEST_F(BlameTest, Crash_WithoutAStepJournal_CountsForAllRunningRequests) {
  die({0, 0, 6, false, {}});
  EXPECT_EQ(deaths("in-step"), 1);
  EXPECT_EQ(deaths("beside"), 1);
}

TEST_F(BlameTest, WorkerExit_ByWatchdogOrOom_CountsAndKillsDoNot) {
  EXPECT_TRUE(death_counts({0, kExitStuck, 0, false, {}}));
  EXPECT_TRUE(death_counts({0, 0, 9, true, {}}));
  EXPECT_FALSE(death_counts({0, 0, 9, false, {}}));
  EXPECT_FALSE(death_counts({0, 0, 15, false, {}}));
  EXPECT_FALSE(death_counts({0, 0, 0, false, {}}));
  EXPECT_FALSE(death_counts({0, 1, 0, false, {}}));
}

TEST_F(BlameTest, WorkerExit_WithACrashSignal_CountsAndOtherSignalsDoNot) {
  for (const std::int32_t broken : {4, 6, 7, 8, 11}) {  // ILL ABRT BUS FPE SEGV
    EXPECT_TRUE(death_counts({0, 0, broken, false, {}})) << broken;
  }
  for (const std::int32_t sent : {1, 2, 3, 10, 12, 13, 14, 31}) {  // 31: SYS
    EXPECT_FALSE(death_counts({0, 0, sent, false, {}})) << sent;
  }
}

TEST_F(BlameTest, Crash_WhenTheChoiceEndedMeanwhile_DoesNotCount) {
  wire::Submit two = bench.submission("two");
  two.n = 2;
  bench.submit(two);
  const std::int64_t pid = bench.machine.fleet().workers().at(kW1).hello.pid;
  bench.step(PeerGone{kW1});
  bench.step(FromWorker{kW1 + 1, bench.hello("w2")});
  bench.make_ready(kW1 + 1);
  for (const wire::Dispatch& d : bench.dispatches()) {
    // One choice ends where it stood; its index has not moved, but it is over.
    if (d.request_id == "two" && d.choice == 0) {
      bench.tokens(kW1 + 1, d, 0, {}, FinishReason::kStop);
      break;
    }
  }
  ASSERT_EQ(bench.machine.request("two")->choices[0].phase, ChoicePhase::kEnded);
  bench.step(WorkerExit{pid, 0, 11, false, {}});
  EXPECT_EQ(bench.machine.request("two")->choices[0].row.deaths, 0);
  EXPECT_EQ(bench.machine.request("two")->choices[1].row.deaths, 1);
}

TEST_F(BlameTest, Crash_WhenTheChoiceMadeProgressMeanwhile_DoesNotCount) {
  bench.step(
      PeerGone{kW1});  // the connection is lost first, the word of the supervisor comes later
  bench.step(FromWorker{kW1 + 1, bench.hello("w2")});
  bench.make_ready(kW1 + 1);
  for (const wire::Dispatch& d : bench.dispatches()) {
    if (d.request_id == "in-step") bench.tokens(kW1 + 1, d, 0, {4});
  }
  bench.step(WorkerExit{bench.hello("w1").pid, 0, 11, false, {}});
  EXPECT_EQ(deaths("in-step"), 0);
  EXPECT_EQ(deaths("beside"), 1);
}

/// A limit that became stricter while what it forbids was running: with the first of its choices
/// the whole request is taken off, whatever ends the attempt.
struct StricterLimit : BlameTest {
  wire::Dispatch in_step;
  PeerId now = kW1 + 1;

  void SetUp() override {
    BlameTest::SetUp();
    wire::Submit two = bench.submission("two");
    two.n = 2;
    bench.submit(two);
    set("blame.quarantine_after", "9");
    set("blame.alone_after", "9");
    die({0, 0, 11, false, {}});
    bench.connect_worker(now, "w1");
    ASSERT_EQ(bench.dispatches(now).size(), 4u);
    for (const wire::Dispatch& d : bench.dispatches(now)) {
      if (d.request_id == "in-step") in_step = d;
    }
    set("blame.quarantine_after", "1");
  }
  void set(const std::string& name, const std::string& value) {
    bench.step(OpConfig{Bench::kOperator, 1, "config.set", "ann", {{name, value}}, {}});
  }
  void expect_quarantined(const std::string& id) {
    EXPECT_EQ(bench.state(id), RequestState::kQuarantined) << id;
    EXPECT_EQ(bench.machine.request(id)->row.error_code, "quarantined");
    EXPECT_EQ(bench.machine.request(id)->running, 0);
  }
  std::vector<std::string> ends_of(const std::string& id) {
    std::vector<std::string> reasons;
    for (const EndAttempt& end : bench.written<EndAttempt>()) {
      if (end.seq == bench.machine.request(id)->row.seq) reasons.push_back(end.reason);
    }
    return reasons;
  }
};

TEST_F(StricterLimit, StricterLimit_WhenTheWorkerGoes_QuarantinesTheWholeRequest) {
  bench.step(PeerGone{now});
  for (const char* id : {"in-step", "beside", "two"}) expect_quarantined(id);
  const auto reasons = ends_of("two");
  ASSERT_EQ(reasons.size(), 4u) << "each attempt ends once";
  EXPECT_EQ(reasons[2], "worker lost: connection lost");
  EXPECT_EQ(reasons[3], "quarantined");
  EXPECT_EQ(bench.machine.lifecycle().running_choices(), 0);
}

TEST_F(StricterLimit, StricterLimit_WhenTheWorkerIsQuarantined_QuarantinesTheRequest) {
  bench.tokens(now, in_step, 0, {1, 2});
  bench.tokens(now, in_step, 1, {9});
  ASSERT_TRUE(bench.machine.fleet().workers().at(now).quarantined);
  EXPECT_EQ(bench.state("in-step"), RequestState::kQueued) << "it has moved since its death";
  expect_quarantined("beside");
  expect_quarantined("two");
  EXPECT_EQ(ends_of("two").size(), 4u);
  EXPECT_TRUE(bench.machine.loads().all().begin()->second.running.empty());
}

TEST_F(StricterLimit, StricterLimit_WhenTheLoadFails_QuarantinesTheWholeRequest) {
  wire::StateReport report;
  report.model.load_id = in_step.load_id;
  report.model.state = "failed";
  bench.step(FromWorker{now, report});
  for (const char* id : {"in-step", "beside", "two"}) expect_quarantined(id);
  EXPECT_EQ(ends_of("two").size(), 4u);
  EXPECT_EQ(bench.machine.loads().all().count(in_step.load_id), 0u);
}

/// A stricter limit where the first token of one choice takes the other one off a worker of another
/// class: the token stands, and no page of the load stays with a choice that is not there any more.
TEST(StricterLimits, StricterLimit_WhenAnotherChoiceBindsTheClass_ReleasesAllPages) {
  for (const FinishReason finish : {FinishReason::kNone, FinishReason::kStop}) {
    Config config;
    config.breaker_failures = 1000;
    config.blame_alone_after = config.blame_quarantine_after = 9;
    Bench bench(config);
    bench.boot();
    bench.add_model(1024, 1);
    const auto connect = [&](PeerId peer, const char* key, const char* numerics) {
      bench.step(FromWorker{peer, bench.hello(key)});
      bench.make_ready(peer, numerics, 1);
    };
    connect(kW1, "w1", "class-a");
    connect(kW1 + 1, "w2", "class-b");
    wire::Submit two = bench.submission("two");
    two.n = 2;
    bench.submit(two);
    for (const char* key : {"w1", "w2"}) {
      bench.step(WorkerExit{bench.hello(key).pid, 0, 11, false, {}});
    }
    connect(kW1 + 2, "w1", "class-a");
    const wire::Dispatch first = bench.dispatch(kW1 + 2);
    connect(kW1 + 3, "w2", "class-b");
    const wire::Dispatch second = bench.dispatch(kW1 + 3);
    bench.step(
        OpConfig{Bench::kOperator, 1, "config.set", "ann", {{"blame.quarantine_after", "1"}}, {}});
    bench.tokens(kW1 + 2, first, 0, {1}, finish);
    EXPECT_EQ(bench.state("two"), RequestState::kQuarantined);
    EXPECT_EQ(bench.stored_ids("two", first.choice), std::vector<TokenId>{1});
    for (const wire::Dispatch& d : {first, second}) {
      EXPECT_TRUE(bench.machine.loads().all().at(d.load_id).running.empty());
      EXPECT_EQ(bench.machine.loads().all().at(d.load_id).pages_used, 0);
    }
    EXPECT_EQ(bench.machine.lifecycle().running_choices(), 0);
    bench.step(OpRequeue{Bench::kOperator, 2, "two"});
    const bool open = finish == FinishReason::kNone;
    EXPECT_EQ(bench.machine.request("two")->open_choices(), open ? 2 : 1);
    EXPECT_EQ(bench.dispatch(kW1 + 2).committed_ids.size(), open ? 1u : 0u);
  }
}

}  // namespace
}  // namespace holdfast::core::blame_test
