// Goal: models share devices by rule: so many loads at once, room is made by idle models only,
// never by pinned ones or ones that came a moment ago, and a model that made room in vain comes
// back; the memory that a load took is compared with its reservation.
// Method: events by hand; one device that has room for one model.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "control/core/drift.h"
#include "tests/core/bench_machine.h"

namespace holdfast::core::pool_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kW2 = 102;
constexpr std::int64_t kDwellMs = 2000;

struct PoolTest : testing::Test {
  static Config config() {
    Config c;
    c.models_dwell_ms = kDwellMs;
    c.models_load_tries = 1;
    return c;
  }
  Bench bench{config()};

  /// A model takes 65,100 bytes, 17,100 at least; of 72,400 loads may have 65,160.
  void SetUp() override {
    bench.boot();
    bench.add_model(1024, 4, 64, true, "a");
    bench.add_model(1024, 4, 64, false, "b");
    wire::Hello hello = bench.hello("w1");
    hello.memory.total = hello.memory.free = 72'400;
    bench.step(FromWorker{kW1, hello});
    bench.make_ready(kW1);
    ASSERT_EQ(state("a"), ModelState::kReady);
  }
  ModelState state(const std::string& name) {
    return bench.machine.registry().models().at(name).row.state;
  }
  void ask_for(const std::string& model, const std::string& id) {
    wire::Submit submit = bench.submission(id);
    submit.model = model;
    bench.submit(std::move(submit));
  }
  void operate(const char* verb, const std::string& name) {
    bench.step(OpModel{Bench::kOperator, 1, verb, name});
  }
};

TEST_F(PoolTest, IdleModel_WhenItsDwellTimeIsOver_IsEvicted) {
  ask_for("b", "r1");
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  bench.advance_ms(kDwellMs - 1);
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  bench.advance_ms(1);
  bench.unloaded(kW1);
  ASSERT_EQ(bench.messages<wire::Load>(kW1).size(), 1u);
  bench.make_ready(kW1);
  EXPECT_EQ(bench.dispatch(kW1).request_id, "r1");
  EXPECT_EQ(state("a"), ModelState::kUnloaded);
}

TEST_F(PoolTest, BusyModel_WhenAnotherWaits_IsEvictedOnceIdle) {
  bench.advance_ms(kDwellMs);
  ask_for("a", "r1");
  const wire::Dispatch running = bench.dispatch(kW1);
  ask_for("b", "r2");
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  bench.tokens(kW1, running, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u);
}

TEST_F(PoolTest, Model_WhenItsLastWaitingRequestIsCancelled_IsEvicted) {
  bench.advance_ms(kDwellMs);
  bench.step(OpConfig{Bench::kOperator, 1, "config.set", "ann", {{"breaker.failures", "1"}}, {}});
  ask_for("a", "r0");
  bench.fail(kW1, bench.dispatch(kW1), "internal");
  bench.step(OpWorker{Bench::kOperator, 1, "w1", false});  // its breaker; that of the model stays
  ask_for("a", "r1");
  EXPECT_TRUE(bench.dispatches().empty());
  ask_for("b", "r2");
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  bench.step(OpCancel{Bench::kOperator, 1, "r1"});
  EXPECT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u);
}

TEST_F(PoolTest, Eviction_WhenSeveralAreIdle_TakesTheLeastRecentlyUsedOnly) {
  for (const bool a_last : {false, true}) {
    Config c = config();
    c.models_dwell_ms = 0;
    Bench local_bench(c);
    local_bench.boot();
    for (const char* name : {"a", "b"})
      local_bench.add_model(1024, 4, 16, true, name);  // 65,100 each
    wire::Hello hello = local_bench.hello("w1");
    hello.memory.total = hello.memory.free = 145'000;  // for two
    local_bench.step(FromWorker{kW1, hello});
    local_bench.make_ready(kW1);
    for (const std::string name : {a_last ? "b" : "a", a_last ? "a" : "b"}) {
      local_bench.advance_ms(10);
      wire::Submit submit = local_bench.submission("of-" + name);
      submit.model = name;
      local_bench.submit(submit);
      local_bench.tokens(kW1, local_bench.dispatch(kW1), 0, {1}, FinishReason::kStop);
    }
    local_bench.add_model(1024, 4, 16, true, "c");
    ASSERT_EQ(local_bench.messages<wire::Unload>(kW1).size(), 1u);
    const std::string goes = local_bench.messages<wire::Unload>(kW1)[0].load_id;
    EXPECT_EQ(local_bench.machine.loads().all().at(goes).row.model, a_last ? "b" : "a");
    local_bench.unloaded(kW1);
    EXPECT_EQ(local_bench.messages<wire::Load>(kW1).size(), 1u);
  }
}

TEST_F(PoolTest, Placement_WhenAnEvictionIsUnderWay_WaitsForIt) {
  Config c = config();
  c.models_replicas = 1;
  c.models_dwell_ms = 0;
  Bench local_bench(c);
  local_bench.boot();
  std::map<std::string, wire::Dispatch> running;
  for (const auto& [peer, name] : {std::make_pair(kW1, "a"), std::make_pair(kW2, "b")}) {
    local_bench.add_model(1024, 4, 64, true, name);
    wire::Hello hello = local_bench.hello("w" + std::to_string(peer));
    hello.memory.total = hello.memory.free = 72'400;
    local_bench.step(FromWorker{peer, hello});
    local_bench.make_ready(peer);
    wire::Submit submit = local_bench.submission(name);
    submit.model = name;
    local_bench.submit(submit);
    running[name] = local_bench.dispatch(peer);
  }
  local_bench.step(OpModel{Bench::kOperator, 1, "models.unload", "b"});
  local_bench.tokens(kW1, running["a"], 0, {1}, FinishReason::kStop);
  // "a" is idle, but "b" is on its way out: only its end is waited for.
  local_bench.add_model(1024, 4, 64, true, "c");
  EXPECT_TRUE(local_bench.messages<wire::Unload>().empty());
  const auto& devices = local_bench.machine.registry().models().at("c").devices;
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].worker_key, "w101");
  EXPECT_FALSE(devices[0].fits_after_drain);
  EXPECT_EQ(devices[0].why, "waits for room: needs 17100 bytes, free 60");
  EXPECT_TRUE(devices[1].fits_after_drain);
  EXPECT_EQ(devices[1].why, "room is being made: needs 17100 bytes, free 60");
  local_bench.tokens(kW2, running["b"], 0, {1}, FinishReason::kStop);
  local_bench.unloaded(kW2);
  EXPECT_EQ(local_bench.messages<wire::Load>(kW2).size(), 1u);
  EXPECT_EQ(local_bench.machine.registry().models().at("a").row.state, ModelState::kReady);
}

TEST_F(PoolTest, PinnedModel_AfterARestart_IsNotEvicted) {
  operate("models.pin", "a");
  EXPECT_EQ(bench.durability, Durability::kFull);
  ask_for("b", "r1");
  bench.advance_ms(10 * kDwellMs);
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  EXPECT_EQ(state("a"), ModelState::kReady);
  Bench again(config());
  again.boot(bench.database(), 2);
  EXPECT_TRUE(again.machine.registry().models().at("a").pinned);
  EXPECT_FALSE(again.machine.registry().models().at("b").pinned);
  operate("models.unpin", "a");
  EXPECT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u);
}

TEST_F(PoolTest, DwellTime_AfterARestart_BeginsAgain) {
  const std::string load_id = bench.machine.loads().all().begin()->first;
  Bench again(config());
  again.now.mono_us = 60'000'000;
  again.boot(bench.database(), 2);
  wire::Hello hello = again.hello("w1");
  hello.memory.total = hello.memory.free = 72'400;
  wire::LoadedModel model;
  model.load_id = load_id;
  model.model_sha = "sha-a";
  model.state = "ready";
  model.slots = 4;
  model.pages_total = 64;
  hello.models = {model};
  again.step(FromWorker{kW1, hello});
  wire::Submit submit = again.submission("r1");
  submit.model = "b";
  again.submit(submit);
  EXPECT_TRUE(again.messages<wire::Unload>().empty());
  again.advance_ms(kDwellMs - 1);
  EXPECT_TRUE(again.messages<wire::Unload>().empty());
  again.advance_ms(1);
  EXPECT_EQ(again.messages<wire::Unload>(kW1).size(), 1u);
}

TEST_F(PoolTest, EvictedModel_WhenTheOthersLoadFails_ComesBack) {
  bench.advance_ms(kDwellMs);
  ask_for("b", "r1");
  bench.unloaded(kW1);
  const auto loads = bench.messages<wire::Load>(kW1);
  ASSERT_EQ(loads.size(), 1u);
  wire::StateReport report;
  report.model.load_id = loads[0].load_id;
  report.model.state = "failed";
  report.model.reason = "internal: the kernels are on strike";
  bench.step(FromWorker{kW1, report});
  EXPECT_EQ(state("b"), ModelState::kFailed);
  EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
  ASSERT_EQ(bench.messages<wire::Load>(kW1).size(), 1u);
  EXPECT_EQ(bench.messages<wire::Load>(kW1)[0].model_sha, "sha-a");
  bench.make_ready(kW1);
  EXPECT_EQ(state("a"), ModelState::kReady);
}

TEST_F(PoolTest, EvictedModel_WhenTheOtherFitsNowhere_ComesBackAtOnce) {
  Config c = config();
  c.models_load_tries = 2;  // the loss of its worker is one
  Bench local_bench(c);
  local_bench.boot();
  local_bench.add_model(1024, 4, 64, true, "a");
  local_bench.add_model(1024, 4, 64, false, "b", 30'000);
  const auto connect = [&](PeerId peer, const char* key, std::int64_t total) {
    wire::Hello hello = local_bench.hello(key);
    hello.memory.total = hello.memory.free = total;
    local_bench.step(FromWorker{peer, hello});
  };
  connect(kW1, "w1", 72'400);
  local_bench.make_ready(kW1);
  local_bench.advance_ms(kDwellMs);
  wire::Submit submit = local_bench.submission("r1");
  submit.model = "b";
  local_bench.submit(submit);
  local_bench.unloaded(kW1);
  ASSERT_EQ(local_bench.messages<wire::Load>(kW1).size(), 1u);
  local_bench.step(PeerGone{kW1});
  connect(kW2, "w2", 30'000);  // enough for the one, never for the other
  EXPECT_TRUE(local_bench.messages<wire::Load>().empty());
  local_bench.advance_ms(local_bench.machine.config().models_load_backoff_ms);
  local_bench.advance_ms(local_bench.machine.config().models_fleet_wait_ms);
  EXPECT_EQ(local_bench.machine.registry().models().at("b").row.state, ModelState::kFailed);
  ASSERT_EQ(local_bench.messages<wire::Load>(kW2).size(), 1u);
  EXPECT_EQ(local_bench.messages<wire::Load>(kW2)[0].model_sha, "sha-a");
}

TEST_F(PoolTest, Loads_WithOnePermit_RunOneAtATime) {
  Config c = config();
  c.models_loads_at_once = 1;
  Bench local_bench(c);
  local_bench.boot();
  local_bench.add_model(1024, 4, 64, true, "a");
  local_bench.add_model(1024, 4, 64, true, "b");
  local_bench.step(FromWorker{kW1, local_bench.hello("w1")});
  ASSERT_EQ(local_bench.messages<wire::Load>().size(), 1u);
  local_bench.step(FromWorker{kW2, local_bench.hello("w2")});
  EXPECT_TRUE(local_bench.messages<wire::Load>().empty());
  // a on w1, then a on w2, then b on both: one after the other.
  EXPECT_EQ(local_bench.machine.loads().all().size(), 1u);
  for (std::size_t loaded = 1; loaded < 4; ++loaded) {
    const auto& loads = local_bench.machine.loads().all();
    const auto waiting = std::find_if(loads.begin(), loads.end(), [](const auto& item) {
      return item.second.row.state != ModelState::kReady;
    });
    ASSERT_NE(waiting, loads.end());
    wire::StateReport report;
    report.model.load_id = waiting->first;
    report.model.model_sha = waiting->second.row.model_sha;
    report.model.state = "ready";
    report.model.slots = 4;
    report.model.pages_total = 64;
    local_bench.step(FromWorker{waiting->second.worker, report});
    EXPECT_EQ(local_bench.messages<wire::Load>().size(), 1u) << loaded;
    EXPECT_EQ(local_bench.machine.loads().all().size(), loaded + 1);
  }
}

TEST_F(PoolTest, MemoryDrift_WhenALoadTakesMore_IsCountedAndAlarmed) {
  Bench local_bench(config());
  local_bench.boot();
  local_bench.add_model(1024, 4, 64, false, "m");
  local_bench.step(FromWorker{kW1, local_bench.hello("w1")});
  std::int64_t alarms = 0;
  const auto load_with = [&](std::int64_t taken) {
    local_bench.step(OpModel{Bench::kOperator, 1, "models.load", "m"});
    const auto loads = local_bench.messages<wire::Load>(kW1);
    ASSERT_EQ(loads.size(), 1u);
    wire::StateReport report;
    report.model.load_id = loads[0].load_id;
    report.model.state = "ready";
    report.model.memory.taken = taken;
    local_bench.step(FromWorker{kW1, report});
    alarms += std::count_if(local_bench.notes.begin(), local_bench.notes.end(),
                            [](const Note& note) { return note.alarm; });
    local_bench.step(OpModel{Bench::kOperator, 2, "models.unload", "m"});
    report.model.state = "unloaded";
    local_bench.step(FromWorker{kW1, report});
  };
  load_with(0);  // not measured
  load_with(-1);
  load_with(8 << 20);  // the process itself moves by as much
  EXPECT_EQ(local_bench.machine.core().counters.envelope_drifts, 0u);
  load_with(100 << 20);
  EXPECT_EQ(local_bench.machine.core().counters.envelope_drifts, 1u);
  EXPECT_EQ(alarms, 1);
  Load large;
  large.row.bytes = 1 << 30;
  EXPECT_FALSE(memory_drifts(large, {})) << "of what was not measured nothing is said";
  EXPECT_EQ(drift_percent(large), 0);
  large.row.bytes = 0;
  large.memory.taken = 1 << 30;
  EXPECT_EQ(drift_percent(large), 0) << "nor where nothing was reserved";
  EXPECT_FALSE(memory_drifts(large, {}));
}

TEST_F(PoolTest, EvictedModel_WhenRemovedMeanwhile_StaysAway) {
  bench.advance_ms(kDwellMs);
  ask_for("b", "r1");
  bench.unloaded(kW1);
  const std::string of_b = bench.messages<wire::Load>(kW1).at(0).load_id;
  operate("models.remove", "a");
  ASSERT_EQ(bench.machine.registry().models().count("a"), 0u);
  wire::StateReport report;
  report.model.load_id = of_b;
  report.model.state = "failed";
  bench.step(FromWorker{kW1, report});
  EXPECT_EQ(state("b"), ModelState::kFailed);
  EXPECT_TRUE(bench.messages<wire::Load>().empty());
}

TEST_F(PoolTest, EvictedModel_WhenFailedMeanwhile_StaysFailed) {
  bench.advance_ms(kDwellMs);
  ask_for("b", "r1");
  bench.unloaded(kW1);
  const std::string of_b = bench.messages<wire::Load>(kW1).at(0).load_id;
  bench.step(OpConfig{Bench::kOperator, 1, "config.set", "ann", {{"models.roots", "/other"}}, {}});
  operate("models.load", "a");
  ASSERT_EQ(state("a"), ModelState::kFailed);
  const std::string why = bench.machine.registry().models().at("a").row.reason;
  wire::StateReport report;
  report.model.load_id = of_b;
  report.model.state = "failed";
  bench.step(FromWorker{kW1, report});
  EXPECT_EQ(state("b"), ModelState::kFailed);
  EXPECT_EQ(state("a"), ModelState::kFailed);
  EXPECT_FALSE(bench.machine.registry().models().at("a").row.load_requested);
  EXPECT_EQ(bench.machine.registry().models().at("a").row.reason, why);
}

/// A load that drains already is counted: no model goes whose room is not needed, and one whose
/// room is needed goes now.
TEST_F(PoolTest, DrainingLoad_WhenALargerModelWaits_IsCounted) {
  Config c = config();
  c.models_dwell_ms = 0;
  for (const std::int64_t weights : {100'000, 30'000}) {
    Bench local_bench(c);
    local_bench.boot();
    local_bench.add_model(1024, 4, 16, true, "a");  // 65,100 bytes each
    local_bench.add_model(1024, 4, 16, true, "b");
    wire::Hello hello = local_bench.hello("w1");
    hello.memory.total = hello.memory.free = 145'000;  // for two
    local_bench.step(FromWorker{kW1, hello});
    local_bench.make_ready(kW1);
    wire::Submit submit = local_bench.submission("r1");
    submit.model = "a";
    local_bench.submit(submit);
    ASSERT_EQ(local_bench.dispatches(kW1).size(), 1u);
    local_bench.step(OpModel{Bench::kOperator, 1, "models.unload", "a"});
    ASSERT_TRUE(local_bench.messages<wire::Unload>().empty()) << "it still works";
    local_bench.add_model(1024, 4, 64, true, "c", weights);
    const auto unloads = local_bench.messages<wire::Unload>(kW1);
    if (weights == 30'000) {
      EXPECT_TRUE(unloads.empty()) << "the end of that one is enough";
      continue;
    }
    ASSERT_EQ(unloads.size(), 1u);
    EXPECT_EQ(local_bench.machine.loads().all().at(unloads[0].load_id).row.model, "b");
  }
}

TEST_F(PoolTest, UnknownLoad_ThatHasMeasuredNothingYet_CountsAsItsModelMayTake) {
  Bench local_bench(config());
  local_bench.boot();
  local_bench.add_model(1024, 4, 16, false, "a");
  wire::Hello hello = local_bench.hello("w1");
  hello.memory.total = hello.memory.free = 145'000;
  wire::LoadedModel held;
  held.load_id = "of another primary";
  held.model_sha = "sha-a";
  held.state = "loading";
  hello.models = {held};
  local_bench.step(FromWorker{kW1, hello});
  EXPECT_EQ(local_bench.messages<wire::Unload>(kW1).size(), 1u);
  EXPECT_EQ(local_bench.machine.memory().reserved_in("h/cpu-w1"), 65'100);
}

TEST_F(PoolTest, DeviceVerdicts_HaveNames) {
  EXPECT_EQ(verdict_name(Verdict::kLoaded), "loaded");
  EXPECT_EQ(verdict_name(Verdict::kFits), "fits");
  EXPECT_EQ(verdict_name(Verdict::kNoFreeMemory), "no room now");
  EXPECT_EQ(verdict_name(Verdict::kTooLarge), "too large");
  EXPECT_EQ(verdict_name(Verdict::kClosed), "gets no work");
}

}  // namespace
}  // namespace holdfast::core::pool_test
