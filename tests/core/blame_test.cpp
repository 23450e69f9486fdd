// Goal: a death is charged only to what was in the step that was running, only for causes from
// inside, and only to what has not moved since.
// Method: events by hand; the record is read from the rows.
#include <gtest/gtest.h>

#include "shared/base/progress.h"
#include "shared/base/step_journal.h"
#include "tests/core/bench_machine.h"

namespace holdfast::core {
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
    exit.pid = bench.machine.workers().at(kW1).hello.pid;
    bench.step(std::move(exit));
  }
  std::int32_t deaths(const std::string& id) {
    return bench.machine.request(id)->choices[0].row.deaths;
  }
};

TEST_F(BlameTest, OnlyTheStepThatRan) {
  WorkerExit crash{0, 0, 11, false, {}};
  crash.step.emplace({step_mark("in-step", 0)});
  die(crash);
  EXPECT_EQ(deaths("in-step"), 1);
  EXPECT_EQ(deaths("beside"), 0);
}

TEST_F(BlameTest, BetweenStepsNobody) {
  WorkerExit crash{0, 0, 11, false, {}};
  crash.step.emplace();
  die(crash);
  EXPECT_EQ(deaths("in-step"), 0);
  EXPECT_EQ(deaths("beside"), 0);
}

TEST_F(BlameTest, WithoutAJournalAllThatRan) {
  die({0, 0, 6, false, {}});
  EXPECT_EQ(deaths("in-step"), 1);
  EXPECT_EQ(deaths("beside"), 1);
}

TEST_F(BlameTest, TheWatchdogCountsKillsAndOrderlyExitsDoNot) {
  EXPECT_TRUE(death_counts({0, kExitStuck, 0, false, {}}));
  EXPECT_TRUE(death_counts({0, 0, 9, true, {}}));
  EXPECT_FALSE(death_counts({0, 0, 9, false, {}}));
  EXPECT_FALSE(death_counts({0, 0, 15, false, {}}));
  EXPECT_FALSE(death_counts({0, 0, 0, false, {}}));
  EXPECT_FALSE(death_counts({0, 1, 0, false, {}}));
}

TEST_F(BlameTest, WhatHasEndedMeanwhileIsNotCharged) {
  wire::Submit two = bench.submission("two");
  two.n = 2;
  bench.submit(two);
  const std::int64_t pid = bench.machine.workers().at(kW1).hello.pid;
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

TEST_F(BlameTest, WhatMovedMeanwhileIsNotCharged) {
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

}  // namespace
}  // namespace holdfast::core
