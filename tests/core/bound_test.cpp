// Goal: a worker that is there for requests bound to one numerics class goes on with those, and
// gets nothing else: no new request, no model of which nothing is bound, no place among a model's
// replicas.
// Method: a worker of an older kernels revision beside one of the new one, on the machine alone.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::bound_test {
namespace {

constexpr PeerId kBefore = 101;  // before the upgrade
constexpr PeerId kNew = 102;
constexpr PeerId kBound = 103;
constexpr const char* kOldClass = "cpu/avx2/r3/sha/f16/single";
constexpr const char* kNewClass = "cpu/avx2/r4/sha/f16/single";

Config patient() {
  Config config;
  config.requests_class_wait_ms = 10'000;
  config.workers_reconnect_ms = 100;
  return config;
}

struct BoundWorker : testing::Test {
  Bench bench{patient()};
  void SetUp() override {
    bench.boot();
    bench.add_model();
  }
  void greet_bound(const std::string& only_class = "cpu/avx2/r3") {
    wire::Hello hello = bench.hello("bound");
    hello.only_class = only_class;
    bench.step(FromWorker{kBound, hello});
  }
  /// A request that begins in the old class, whose worker then ends.
  void begin_and_upgrade(const std::string& id) {
    bench.connect_worker(kBefore, "w0", kOldClass);
    bench.submit(bench.submission(id));
    bench.tokens(kBefore, bench.dispatch(kBefore), 0, {1});
    bench.step(PeerGone{kBefore});
    bench.advance_ms(100);
  }
};

TEST_F(BoundWorker, Request_BoundToItsClass_GoesOnThere) {
  begin_and_upgrade("begun");
  bench.connect_worker(kNew, "w0", kNewClass);
  EXPECT_TRUE(bench.dispatches().empty());
  greet_bound();
  ASSERT_EQ(bench.messages<wire::Load>(kBound).size(), 1u);
  bench.make_ready(kBound, kOldClass);
  const wire::Dispatch sent = bench.dispatch(kBound);
  EXPECT_EQ(sent.request_id, "begun");
  EXPECT_EQ(sent.committed_ids, std::vector<TokenId>{1});
  bench.tokens(kBound, sent, 1, {2}, FinishReason::kStop);
  EXPECT_EQ(bench.state("begun"), RequestState::kSucceeded);
}

TEST_F(BoundWorker, NewRequest_WhenTheOthersAreFull_WaitsForThem) {
  begin_and_upgrade("begun");
  bench.connect_worker(kNew, "w0", kNewClass);
  greet_bound();
  bench.make_ready(kBound, kOldClass);
  ASSERT_EQ(bench.dispatches(kBound).size(), 1u);
  wire::Dispatch last;
  for (int i = 0; i < 4; ++i) {  // its slots
    bench.submit(bench.submission("n" + std::to_string(i)));
    last = bench.dispatch(kNew);
  }
  bench.submit(bench.submission("waits"));
  EXPECT_TRUE(bench.dispatches().empty());
  bench.tokens(kNew, last, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.dispatch(kNew).request_id, "waits");
}

TEST_F(BoundWorker, Model_WithoutBoundRequests_IsNotLoadedThere) {
  bench.connect_worker(kNew, "w0", kNewClass);
  greet_bound();
  EXPECT_TRUE(bench.messages<wire::Load>(kBound).empty());
  bench.submit(bench.submission("new"));
  bench.tokens(kNew, bench.dispatch(kNew), 0, {1});
  EXPECT_TRUE(bench.messages<wire::Load>(kBound).empty()) << "bound to another class";
  bench.advance_ms(1'000);
  EXPECT_TRUE(bench.messages<wire::Load>(kBound).empty());
}

TEST_F(BoundWorker, Model_LoadedThereAlone_IsNotReady) {
  begin_and_upgrade("begun");
  greet_bound();
  bench.make_ready(kBound, kOldClass);
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kPlacing);
  bench.connect_worker(kNew, "w0", kNewClass);
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kReady);
}

TEST_F(BoundWorker, Replicas_WhenItHoldsTheModel_DoNotCountIt) {
  bench.step(OpConfig{Bench::kOperator, 9, "config.set", "test", {{"model.m.replicas", "1"}}, {}});
  begin_and_upgrade("begun");
  greet_bound();
  bench.make_ready(kBound, kOldClass);
  bench.step(FromWorker{kNew, bench.hello("w0", "i2")});
  EXPECT_EQ(bench.messages<wire::Load>(kNew).size(), 1u);
}

/// A load that takes long is no class that is gone.
TEST_F(BoundWorker, ClassWait_WhileItsModelLoads_DoesNotEnd) {
  begin_and_upgrade("begun");
  greet_bound();
  ASSERT_EQ(bench.messages<wire::Load>(kBound).size(), 1u);
  bench.advance_ms(11'000);
  EXPECT_EQ(bench.state("begun"), RequestState::kQueued);
}

TEST_F(BoundWorker, BoundRequests_WhenTheyEnd_AreNotCounted) {
  begin_and_upgrade("begun");
  const UsageTracker& usage = bench.machine.lifecycle().requests().usage();
  EXPECT_EQ(usage.bound_to("m", "cpu/avx2/r3"), 1);
  EXPECT_EQ(usage.bound_to("m", "cpu/avx2/r"), 0) << "whole parts";
  EXPECT_EQ(usage.bound_to("other", "cpu/avx2/r3"), 0);
  bench.step(OpCancel{Bench::kOperator, 1, "begun"});
  EXPECT_EQ(usage.bound_to("m", "cpu/avx2/r3"), 0);
  EXPECT_TRUE(usage.bound().empty());
}

}  // namespace
}  // namespace holdfast::core::bound_test
