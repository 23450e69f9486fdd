// Goal: bugs that the simulator found stay away, each as a short story.
// Method: the machine on the bench, by hand.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::found_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kW2 = 102;

TEST(SimulatorRegressions, RequestChoices_WhenTheFirstBindsANumericsClass_AllRunInIt) {
  Bench b;
  b.boot();
  b.add_model(1024, 1, 16);
  b.connect_worker(kW1, "w1", "class-a");
  b.connect_worker(kW2, "w2", "class-b");
  wire::Submit submit = b.submission("r");
  submit.n = 2;
  b.submit(submit);
  const auto dispatches = b.dispatches();
  ASSERT_EQ(dispatches.size(), 2u);
  const wire::Dispatch first = b.dispatches(kW1).at(0);
  const wire::Dispatch second = b.dispatches(kW2).at(0);
  b.tokens(kW1, first, 0, {7});
  EXPECT_EQ(b.durability, Durability::kFull);  // the class must outlive a power failure
  ASSERT_EQ(b.messages<wire::CancelWork>(kW2).size(), 1u);
  EXPECT_EQ(b.dispatch(kW1).choice, second.choice);  // it begins again where the class is
  b.tokens(kW2, second, 0, {8});
  EXPECT_TRUE(b.stored_ids("r", second.choice).empty());
}

TEST(SimulatorRegressions, WaitingModel_WhenTheOtherBecomesIdle_IsLoaded) {
  Config config;
  config.models_dwell_ms = 0;
  Bench b(config);
  b.boot();
  b.add_model(1024, 1, 16, true, "m");
  b.add_model(1024, 1, 16, false, "n");
  wire::Hello hello = b.hello("w1");
  const ModelRow& row = b.machine.registry().models().at("m").row;
  const std::int64_t one = row.weights_bytes + row.kv_bytes + row.scratch_bytes;
  hello.memory.total = one * 3 / 2 * 100 / 90 + 100;
  b.step(FromWorker{kW1, hello});
  b.make_ready(kW1, "class-a", 1, 16);
  b.submit(b.submission("r1"));
  const wire::Dispatch d = b.dispatch(kW1);
  wire::Submit other = b.submission("r2");
  other.model = "n";
  b.submit(other);
  EXPECT_TRUE(b.messages<wire::Unload>(kW1).empty());  // the other one is busy
  b.tokens(kW1, d, 0, {7}, FinishReason::kStop);
  EXPECT_EQ(b.messages<wire::Unload>(kW1).size(), 1u);
}

TEST(SimulatorRegressions, UnloadModel_WhileRequestsWait_StillServesThem) {
  Bench b;
  b.boot();
  b.add_model(1024, 1, 16);
  b.submit(b.submission("r1"));  // no worker yet
  b.step(OpModel{Bench::kOperator, 1, "models.unload", "m"});
  b.connect_worker(kW1, "w1");
  EXPECT_EQ(b.state("r1"), RequestState::kRunning);
}

TEST(SimulatorRegressions, QuarantinedRequest_WithDamagedRows_Fails) {
  Bench b;
  b.boot();
  b.add_model();
  b.submit(b.submission("r1"));
  Boot boot = b.database();
  ASSERT_EQ(boot.requests.size(), 1u);
  boot.requests[0].row.state = RequestState::kQuarantined;
  boot.requests[0].damaged = "its checksum is wrong";
  Bench after;
  after.boot(boot, 2);
  EXPECT_EQ(after.state("r1"), RequestState::kFailed);
}

TEST(SimulatorRegressions, Deadline_WhenTheWallClockSteps_DoesNotMove) {
  for (const std::int64_t step_ms : {3'600'000, -3'600'000}) {
    Bench b;
    Boot first;
    first.boot_id = "this boot";
    b.boot(first);
    b.add_model();
    wire::Submit submit = b.submission("r1");
    submit.total_timeout_ms = 5000;
    b.submit(submit);
    Boot again = b.database();
    again.boot_id = again.clock_boot_id = "this boot";
    again.clock_offset_ms = b.now.wall_ms - b.now.mono_us / 1000;
    Bench after;
    after.now = b.now;
    after.now.wall_ms += step_ms;
    after.boot(again, 2);
    after.advance_ms(4000);
    EXPECT_EQ(after.state("r1"), RequestState::kQueued);
    after.advance_ms(1001);
    EXPECT_EQ(after.state("r1"), RequestState::kExpired);
  }
}

}  // namespace
}  // namespace holdfast::core::found_test
