// Goal: a worker or a model that fails again and again gets no work for a while and is tried with
// one piece of work afterwards; success ends that; what fails for a known other cause does not
// count; a worker that computed two tokens for one index stays out until an operator says
// otherwise.
// Method: events by hand; restarts boot a second machine from the rows of the first.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::breaker_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kW2 = 102;

TEST(Breaker, Breaker_WhenFailuresRepeat_OpensLongerAndProbesOneAtATime) {
  Config config;
  config.breaker_failures = 2;
  config.breaker_pause_ms = 100;
  config.breaker_pause_max_ms = 300;
  Breaker breaker;
  EXPECT_FALSE(breaker.failed(config, 0));
  EXPECT_TRUE(breaker.allows(0, 7));
  EXPECT_TRUE(breaker.failed(config, 0));
  EXPECT_TRUE(breaker.open(99'999));
  EXPECT_FALSE(breaker.allows(99'999, 0));
  EXPECT_TRUE(breaker.allows(100'000, 0));
  EXPECT_FALSE(breaker.allows(100'000, 1));  // one at a time
  EXPECT_TRUE(breaker.failed(config, 100'000));
  EXPECT_EQ(breaker.open_until_us(), 300'000);
  EXPECT_TRUE(breaker.failed(config, 300'000));
  EXPECT_EQ(breaker.open_until_us(), 600'000);  // at most 300 ms
  EXPECT_EQ(breaker.failures(), 4);
  breaker.succeeded();
  EXPECT_TRUE(breaker.allows(300'000, 5));
}

struct BreakerTest : testing::Test {
  static Config quick() {
    Config config;
    config.breaker_failures = 2;
    config.breaker_pause_ms = 1000;
    return config;
  }
  Bench bench{quick()};
  int made = 0;

  void SetUp() override {
    bench.boot();
    bench.add_model();
    bench.connect_worker(kW1, "w1");
  }
  wire::Dispatch submit() {
    bench.submit(bench.submission("r" + std::to_string(++made)));
    return bench.dispatches().empty() ? wire::Dispatch() : bench.dispatch();
  }
  void fail(const wire::Dispatch& d, const std::string& code = "internal") {
    bench.fail(kW1, d, code);
  }
  std::vector<InsertTransition> breaker_rows(const std::string& subject) {
    std::vector<InsertTransition> out;
    for (const auto& row : bench.written<InsertTransition>()) {
      if (row.subject == subject && row.to.starts_with("breaker")) out.push_back(row);
    }
    return out;
  }
};

TEST_F(BreakerTest, Breaker_AfterFailuresInARow_OpensUntilOneProbeSucceeds) {
  fail(submit());
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 1);
  fail(submit());
  EXPECT_TRUE(bench.machine.breakers().of_worker("w1").tripped());
  EXPECT_TRUE(bench.machine.registry().models().at("m").breaker.tripped());
  ASSERT_EQ(breaker_rows("worker").size(), 1u);
  EXPECT_EQ(breaker_rows("worker")[0].key, "w1");
  EXPECT_EQ(breaker_rows("model").size(), 1u);
  submit();
  submit();
  EXPECT_TRUE(bench.dispatches().empty());
  bench.advance_ms(999);
  EXPECT_TRUE(bench.dispatches().empty());
  bench.advance_ms(1);
  const wire::Dispatch probe = bench.dispatch();  // one, though four fit
  bench.tokens(kW1, probe, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.dispatches().size(), 1u);
  EXPECT_FALSE(bench.machine.breakers().of_worker("w1").tripped());
  EXPECT_FALSE(bench.machine.registry().models().at("m").breaker.tripped());
  EXPECT_EQ(breaker_rows("worker").back().to, "breaker closed");
  submit();
  EXPECT_EQ(bench.dispatches().size(), 1u);
}

/// A model that fails everywhere is tried by one request on one worker, not by one on each.
TEST_F(BreakerTest, ModelBreaker_WhenHalfOpen_ProbesOneWorkerAtATime) {
  bench.connect_worker(kW2, "w2");
  const auto all = [&] { return bench.dispatches(kW1).size() + bench.dispatches(kW2).size(); };
  int failed = 0;
  while (!bench.machine.registry().models().at("m").breaker.tripped()) {
    submit();
    for (const PeerId peer : {kW1, kW2}) {
      for (const wire::Dispatch& d : bench.dispatches(peer)) {
        bench.fail(peer, d, "internal");
        ++failed;
      }
    }
  }
  EXPECT_EQ(failed, 2);
  for (const char* worker : {"w1", "w2"}) {
    bench.step(OpWorker{Bench::kOperator, 1, worker, false});
  }
  submit();
  submit();
  EXPECT_EQ(all(), 0u);
  bench.advance_ms(1000);
  EXPECT_EQ(all(), 1u);
  bench.advance_ms(50);
  submit();
  EXPECT_EQ(all(), 0u);
}

TEST_F(BreakerTest, Breaker_WhenSuccessesSeparateFailures_StaysClosed) {
  for (int i = 0; i < 6; ++i) {
    fail(submit());
    bench.tokens(kW1, submit(), 0, {1}, FinishReason::kStop);
  }
  EXPECT_EQ(bench.machine.core().counters.breakers_opened, 0u);
}

TEST_F(BreakerTest, Breaker_WhenARequestIsAtFault_CountsNoFailure) {
  for (const char* code : {"invalid_request", "unsupported", "context_exceeded"}) {
    for (int i = 0; i < 3; ++i) fail(submit(), code);
  }
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 0);
  EXPECT_EQ(bench.machine.registry().models().at("m").breaker.failures(), 0);
}

TEST_F(BreakerTest, Breaker_WhenOneWorkerFails_StopsThatWorkerOnly) {
  bench.connect_worker(kW2, "w2");
  for (int i = 0; i < 2; ++i) {
    std::vector<wire::Dispatch> on1;
    std::vector<wire::Dispatch> on2;
    while (on1.empty() || on2.empty()) {
      submit();
      for (const wire::Dispatch& d : bench.dispatches(kW1)) on1.push_back(d);
      for (const wire::Dispatch& d : bench.dispatches(kW2)) on2.push_back(d);
    }
    fail(on1[0]);
    for (const wire::Dispatch& d : on2) bench.tokens(kW2, d, 0, {1}, FinishReason::kStop);
  }
  EXPECT_TRUE(bench.machine.breakers().of_worker("w1").tripped());
  EXPECT_FALSE(bench.machine.breakers().of_worker("w2").tripped());
  EXPECT_FALSE(bench.machine.registry().models().at("m").breaker.tripped());
  for (int i = 0; i < 4; ++i) {
    submit();
    EXPECT_EQ(bench.dispatches(kW2).size(), 1u) << i;
  }
}

TEST_F(BreakerTest, Breaker_WhenAWorkerDies_CountsUnlessASuspectRunsAlone) {
  const auto die = [&](PeerId peer, int signal) {
    const std::int64_t pid = bench.machine.fleet().workers().at(peer).hello.pid;
    bench.step(WorkerExit{pid, 0, signal, false, {}});
  };
  submit();
  die(kW1, 9);  // from outside
  bench.connect_worker(kW1 + 10, "w1");
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 0);
  die(kW1 + 10, 11);
  bench.connect_worker(kW1 + 11, "w1");
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 1);
  EXPECT_EQ(bench.machine.registry().models().at("m").breaker.failures(), 1);
  die(kW1 + 11, 11);
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 2);
  bench.connect_worker(kW1 + 12, "w1");
  EXPECT_TRUE(bench.messages<wire::Load>().empty());  // nothing to load on either
  bench.advance_ms(1000);
  bench.make_ready(kW1 + 12);
  EXPECT_EQ(bench.machine.request("r1")->choices[0].row.deaths, 2);
  EXPECT_EQ(bench.machine.request("r1")->choices[0].phase, ChoicePhase::kRunning);  // alone
  die(kW1 + 12, 11);
  EXPECT_EQ(bench.machine.request("r1")->choices[0].row.deaths, 3);
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 2);
  EXPECT_EQ(bench.machine.registry().models().at("m").breaker.failures(), 2);
}

TEST_F(BreakerTest, Breaker_WhenAnOperatorResetsIt_Closes) {
  fail(submit());
  fail(submit());
  // The model's own breaker is open too; another model on the worker shows that the worker is free.
  EXPECT_TRUE(bench.machine.breakers().of_worker("w1").tripped());
  bench.step(OpWorker{Bench::kOperator, 1, "w1", false});
  EXPECT_FALSE(bench.machine.breakers().of_worker("w1").tripped());
}

TEST_F(BreakerTest, QuarantinedWorker_AfterARestart_StaysOutUntilAnOperatorReleasesIt) {
  const wire::Dispatch d = submit();
  bench.tokens(kW1, d, 0, {1, 2});
  bench.tokens(kW1, d, 1, {9});
  ASSERT_TRUE(bench.machine.fleet().workers().at(kW1).quarantined);
  EXPECT_EQ(bench.durability, Durability::kFull) << "a power cut must not bring it back";
  bench.step(PeerGone{kW1});
  bench.step(FromWorker{kW2, bench.hello("w1", "i2")});  // a new process of the same worker
  EXPECT_TRUE(bench.machine.fleet().workers().at(kW2).quarantined);
  EXPECT_TRUE(bench.dispatches().empty());

  Bench again(quick());
  again.boot(bench.database(), 2);
  again.step(FromWorker{kW1, again.hello("w1", "i3")});
  EXPECT_TRUE(again.machine.fleet().workers().at(kW1).quarantined);
  EXPECT_EQ(again.machine.fleet().workers().at(kW1).quarantine_reason, "determinism violation");
  again.step(OpWorker{Bench::kOperator, 1, "w1", false});
  EXPECT_EQ(again.durability, Durability::kFull);
  EXPECT_FALSE(again.machine.fleet().workers().at(kW1).quarantined);
  again.make_ready(kW1);
  EXPECT_EQ(again.dispatches(kW1).size(), 1u);

  const PutFlag flag = again.written<PutFlag>().front();
  EXPECT_EQ(flag.name, "quarantine/w1");
  EXPECT_EQ(flag.value, "");
}

}  // namespace
}  // namespace holdfast::core::breaker_test
