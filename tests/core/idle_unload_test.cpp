// Goal: a model that nobody uses is unloaded after its time, no sooner and not while anybody may
// still use it; a client's keep_alive replaces the configured time until the model goes, over
// restarts too; nothing is lost, and nobody can have a model loaded over and over.
// Method: events by hand; one worker, a clock that is moved.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/core/bench_machine.h"

namespace holdfast::core::idle_unload_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr std::int64_t kDwellMs = 2000;
constexpr std::int64_t kIdleMs = 60'000;

Config config(std::int64_t idle_s = kIdleMs / 1000) {
  Config c;
  c.models_dwell_ms = kDwellMs;
  c.models_idle_unload_s = idle_s;
  return c;
}

struct IdleUnload : testing::Test {
  Bench bench{config()};

  void SetUp() override { begin(bench); }
  static void begin(Bench& b) {
    b.boot();
    b.add_model();
    b.connect_worker(kW1, "w1");
  }
  static ModelState state(const Bench& b) {
    return b.machine.registry().models().at("m").row.state;
  }
  static std::optional<std::int64_t> goes_in_ms(const Bench& b) {
    const auto at_ms =
        b.machine.idle_unloads().unloads_at_ms(b.machine.registry().models().at("m"));
    if (!at_ms) return std::nullopt;
    return *at_ms - b.now.wall_ms;
  }
  static wire::Dispatch ask(Bench& b, const std::string& id,
                            std::optional<std::int64_t> keep_alive_ms = {}) {
    wire::Submit submit = b.submission(id);
    submit.keep_alive_ms = keep_alive_ms;
    b.submit(std::move(submit));
    return b.dispatch(kW1);
  }
  /// Runs a request to its end.
  static void serve(Bench& b, const std::string& id,
                    std::optional<std::int64_t> keep_alive_ms = {}) {
    const wire::Dispatch running = ask(b, id, keep_alive_ms);
    b.tokens(kW1, running, 0, {1}, FinishReason::kStop);
  }
  static std::size_t unloads(const Bench& b) { return b.messages<wire::Unload>(kW1).size(); }
};

TEST_F(IdleUnload, Model_WhenUnusedForItsTime_IsUnloadedOnce) {
  EXPECT_EQ(goes_in_ms(bench), kIdleMs);
  bench.advance_ms(kIdleMs - 1);
  EXPECT_EQ(unloads(bench), 0u);
  bench.advance_ms(1);
  EXPECT_EQ(unloads(bench), 1u);
  EXPECT_EQ(bench.machine.registry().models().at("m").row.reason, "unused for 60 s");
  bench.unloaded(kW1);
  EXPECT_EQ(state(bench), ModelState::kUnloaded);
  EXPECT_EQ(bench.machine.core().counters.idle_unloads, 1u);
  EXPECT_FALSE(goes_in_ms(bench).has_value());
  bench.advance_ms(10 * kIdleMs);
  EXPECT_EQ(unloads(bench), 0u);
}

TEST_F(IdleUnload, Time_AfterARequest_BeginsAgainAtItsEnd) {
  bench.advance_ms(kIdleMs - 10);
  const wire::Dispatch running = ask(bench, "r1");
  bench.advance_ms(3 * kIdleMs);
  EXPECT_EQ(unloads(bench), 0u) << "it runs";
  EXPECT_EQ(goes_in_ms(bench), kIdleMs);
  bench.tokens(kW1, running, 0, {1}, FinishReason::kStop);
  bench.advance_ms(kIdleMs - 1);
  EXPECT_EQ(unloads(bench), 0u);
  bench.advance_ms(1);
  EXPECT_EQ(unloads(bench), 1u);
}

TEST_F(IdleUnload, Request_AfterTheUnload_LoadsTheModelAgain) {
  bench.advance_ms(kIdleMs);
  bench.unloaded(kW1);
  bench.submit(bench.submission("r1"));
  EXPECT_EQ(bench.messages<wire::Load>(kW1).size(), 1u);
  bench.make_ready(kW1);
  EXPECT_EQ(bench.dispatch(kW1).request_id, "r1");
}

TEST_F(IdleUnload, Request_WhileTheModelGoes_IsServedByANewLoad) {
  bench.advance_ms(kIdleMs);
  ASSERT_EQ(unloads(bench), 1u);
  const std::string load = bench.messages<wire::Unload>(kW1)[0].load_id;
  bench.submit(bench.submission("r1"));
  EXPECT_EQ(bench.messages<wire::Accepted>().size(), 1u);
  wire::StateReport gone;
  gone.model = ready_model(load);
  gone.model.state = "unloaded";
  bench.step(FromWorker{kW1, gone});
  EXPECT_EQ(bench.messages<wire::Load>(kW1).size(), 1u);
  bench.make_ready(kW1);
  EXPECT_EQ(bench.dispatch(kW1).request_id, "r1");
}

TEST_F(IdleUnload, Model_WithATimeOfItsOwn_GoesByThat) {
  Bench b(config(0));
  begin(b);
  EXPECT_FALSE(goes_in_ms(b).has_value());
  b.advance_ms(100 * kIdleMs);
  EXPECT_EQ(unloads(b), 0u);
  b.step(OpConfig{Bench::kOperator, 1, "config.set", "ann", {{"model.m.idle_unload_s", "5"}}, {}});
  EXPECT_EQ(unloads(b), 1u) << "it has been unused for longer";
}

TEST_F(IdleUnload, Model_WhenPinned_Stays) {
  bench.step(OpModel{Bench::kOperator, 1, "models.pin", "m"});
  bench.advance_ms(2 * kIdleMs);
  EXPECT_EQ(unloads(bench), 0u);
  EXPECT_FALSE(goes_in_ms(bench).has_value());
  bench.step(OpModel{Bench::kOperator, 1, "models.unpin", "m"});
  EXPECT_EQ(unloads(bench), 1u);
}

TEST_F(IdleUnload, KeepAlive_OfARequest_ReplacesTheConfiguredTime) {
  serve(bench, "r1", 10'000);
  EXPECT_EQ(goes_in_ms(bench), 10'000);
  serve(bench, "r2");
  EXPECT_EQ(goes_in_ms(bench), 10'000) << "a request that says nothing changes nothing";
  serve(bench, "r3", -1);
  EXPECT_FALSE(goes_in_ms(bench).has_value());
  bench.advance_ms(100 * kIdleMs);
  EXPECT_EQ(unloads(bench), 0u);
  serve(bench, "r4", 5000);
  bench.advance_ms(5000);
  EXPECT_EQ(unloads(bench), 1u);
  bench.unloaded(kW1);
  // The next load goes by the configuration again.
  bench.submit(bench.submission("r5"));
  bench.make_ready(kW1);
  bench.tokens(kW1, bench.dispatch(kW1), 0, {1}, FinishReason::kStop);
  EXPECT_EQ(goes_in_ms(bench), kIdleMs);
}

TEST_F(IdleUnload, KeepAlive_OfZero_UnloadsAtTheEndButNotBeforeTheDwellTime) {
  const wire::Dispatch running = ask(bench, "r1", 0);
  EXPECT_EQ(unloads(bench), 0u);
  bench.tokens(kW1, running, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(unloads(bench), 0u);
  bench.advance_ms(kDwellMs - 1);
  EXPECT_EQ(unloads(bench), 0u);
  bench.advance_ms(1);
  EXPECT_EQ(unloads(bench), 1u);
}

TEST_F(IdleUnload, KeepAlive_OverARestart_Holds) {
  serve(bench, "r1", 10'000);
  Bench after(config());
  after.boot(bench.database(), 2);
  const auto& model = after.machine.registry().models().at("m");
  EXPECT_EQ(model.keep_alive_ms, 10'000);

  bench.advance_ms(10'000);
  bench.unloaded(kW1);
  Bench later(config());
  later.boot(bench.database(), 2);
  EXPECT_FALSE(later.machine.registry().models().at("m").keep_alive_ms.has_value());
}

TEST_F(IdleUnload, KeepAlive_WhereTheOperatorForbidsIt_HasNoEffect) {
  bench.step(
      OpConfig{Bench::kOperator, 1, "config.set", "ann", {{"models.client_keep_alive", "0"}}, {}});
  serve(bench, "r1", 0);
  EXPECT_EQ(goes_in_ms(bench), kIdleMs);
  bench.step(OpModel{Bench::kOperator, 7, "models.keep_alive", "m", 0, true});
  ASSERT_EQ(bench.sent.size(), 1u);
  EXPECT_EQ(std::get<SendOpResult>(bench.sent[0]).refusal.code, Errc::kUnauthorized);
  bench.step(OpModel{Bench::kOperator, 8, "models.keep_alive", "m", 0, false});
  bench.advance_ms(kDwellMs);
  EXPECT_EQ(unloads(bench), 1u) << "an operator may";
}

TEST_F(IdleUnload, Model_WhileRequestsWait_Stays) {
  bench.step(OpPause{Bench::kOperator, 1, true});
  bench.submit(bench.submission("r1"));
  bench.advance_ms(2 * kIdleMs);
  EXPECT_EQ(unloads(bench), 0u);
  bench.step(OpPause{Bench::kOperator, 2, false});
  EXPECT_EQ(bench.dispatch(kW1).request_id, "r1");
}

}  // namespace
}  // namespace holdfast::core::idle_unload_test
