// Goal: the figures that status shows are those of what happened: waits, pauses between tokens,
// rates of the last minute, refusals by reason, and the queue by model, tenant and class.
// Method: scripted events at chosen times; nothing in here decides anything, so the machine's
// other tests say that it goes on as before.
#include "control/core/stats.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/core/bench_machine.h"

namespace holdfast::core::stats_test {
namespace {

constexpr PeerId kW1 = 101;

TEST(MinuteRate, MinuteRate_AfterAMinute_ForgetsOldEvents) {
  MinuteRate rate;
  const std::int64_t start = 100'000'000;
  for (int second = 0; second < 60; ++second) rate.add(start + second * 1'000'000, 10);
  const std::int64_t end = start + 59'000'000;
  EXPECT_EQ(rate.count(end), 600u);
  EXPECT_EQ(rate.count(end + 30'000'000), 300u);
  EXPECT_EQ(rate.count(end + 60'000'000), 0u);
  EXPECT_NEAR(rate.per_second(end, 0), 10, 0.2);
  rate.add(end + 200'000'000, 3);
  EXPECT_EQ(rate.count(end + 200'000'000), 3u);
  MinuteRate young;
  young.add(start + 1'000'000, 20);
  EXPECT_NEAR(young.per_second(start + 2'000'000, start), 10, 0.01);
}

TEST(MinuteRate, MinuteRate_WhenAnEventComesLate_CountsItAsNow) {
  MinuteRate rate;
  rate.add(100'000'000, 1);
  rate.add(90'000'000, 2);
  EXPECT_EQ(rate.count(100'000'000), 3u);
  EXPECT_EQ(rate.count(159'000'000), 3u);
  EXPECT_EQ(rate.count(160'000'000), 0u);
}

TEST(ModelStats, Merge_AddsEveryFinishReasonAndEndState) {
  ModelStats one, two;
  for (std::size_t i = 0; i < one.finished.size(); ++i) one.finished[i] = i + 1;
  for (std::size_t i = 0; i < one.ended.size(); ++i) one.ended[i] = i + 10;
  two.merge(one);
  two.merge(one);
  for (std::size_t i = 0; i < one.finished.size(); ++i) EXPECT_EQ(two.finished[i], 2 * (i + 1));
  for (std::size_t i = 0; i < one.ended.size(); ++i) EXPECT_EQ(two.ended[i], 2 * (i + 10));
}

struct StatsTest : testing::Test {
  Bench bench;
  const Stats& stats() const { return bench.machine.core().stats; }
  ModelStats times() const { return stats().all(); }
};

TEST_F(StatsTest, RequestTimes_WhenTokensArrive_AreMeasured) {
  bench.boot();
  bench.add_model();
  bench.submit(bench.submission("a"));
  bench.advance_ms(300);
  bench.connect_worker(kW1, "w1");
  const wire::Dispatch d = bench.dispatch(kW1);
  bench.advance_ms(50);
  bench.tokens(kW1, d, 0, {1});
  bench.advance_ms(20);
  bench.tokens(kW1, d, 1, {2, 3});
  bench.advance_ms(30);
  bench.tokens(kW1, d, 3, {4}, FinishReason::kStop);
  EXPECT_EQ(times().queue_wait.count(), 1u);
  EXPECT_EQ(times().queue_wait.max(), 300'000);
  EXPECT_EQ(times().first_token.count(), 1u);
  EXPECT_EQ(times().first_token.max(), 350'000);
  EXPECT_EQ(times().token_gap.count(), 3u) << "two tokens share a pause of 20 ms";
  EXPECT_EQ(times().token_gap.sum(), 10'000 + 10'000 + 30'000);
  EXPECT_EQ(times().end_to_end.max(), 400'000);
  EXPECT_EQ(stats().tokens.count(bench.now.mono_us), 4u);
  EXPECT_EQ(stats().accepted.count(bench.now.mono_us), 1u);
  EXPECT_EQ(stats().ended.count(bench.now.mono_us), 1u);
}

TEST_F(StatsTest, ModelStats_WithSeveralModels_AddUp) {
  bench.boot();
  bench.add_model();
  bench.add_model(1024, 4, 64, false, "n");
  bench.connect_worker(kW1, "w1");
  bench.submit(bench.submission("a"));
  const wire::Dispatch d = bench.dispatch(kW1);
  bench.advance_ms(20);
  bench.tokens(kW1, d, 0, {1});
  bench.advance_ms(30);
  bench.tokens(kW1, d, 1, {2, 3}, FinishReason::kLength);
  const ModelStats& m = stats().models.at("m");
  EXPECT_EQ(m.prefill.max(), 20'000) << "dispatch to first token";
  EXPECT_EQ(m.decode.max(), 30'000) << "first to last token";
  EXPECT_EQ(m.generated_tokens, 3u);
  EXPECT_EQ(m.prompt_tokens,
            static_cast<std::uint64_t>(bench.machine.request("a")->prompt_tokens.at(0)));
  EXPECT_EQ(m.ended[ModelStats::kSucceeded], 1u);
  EXPECT_EQ(m.finished[static_cast<std::size_t>(FinishReason::kLength)], 1u);
  wire::Submit other = bench.submission("b");
  other.model = "n";
  bench.submit(other);
  bench.step(FromClient{Bench::kClient, wire::Cancel{9, "b", {}}});
  EXPECT_EQ(stats().models.at("n").ended[ModelStats::kCancelled], 1u);
  EXPECT_EQ(stats().models.at("n").end_to_end.count(), 0u) << "only of what succeeded";
  EXPECT_EQ(times().ended[ModelStats::kSucceeded] + times().ended[ModelStats::kCancelled], 2u);
  EXPECT_EQ(times().prompt_tokens, m.prompt_tokens + stats().models.at("n").prompt_tokens);
}

TEST_F(StatsTest, DecodeTime_WhenCancelledOrFailed_IsNotMeasured) {
  bench.boot();
  bench.add_model();
  bench.connect_worker(kW1, "w1");
  const auto end = [&](const char* id, const std::function<void(const wire::Dispatch&)>& how) {
    bench.submit(bench.submission(id));
    const wire::Dispatch d = bench.dispatch(kW1);
    bench.tokens(kW1, d, 0, {1});
    bench.advance_ms(10);
    how(d);
    return stats().models.at("m").decode.count();
  };
  EXPECT_EQ(end("cancelled",
                [&](const wire::Dispatch&) {
                  bench.step(FromClient{Bench::kClient, wire::Cancel{9, "cancelled", {}}});
                }),
            0u);
  EXPECT_EQ(end("failed", [&](const wire::Dispatch& d) { bench.fail(kW1, d); }), 0u);
  EXPECT_EQ(
      end("stopped",
          [&](const wire::Dispatch& d) { bench.tokens(kW1, d, 1, {2}, FinishReason::kStop); }),
      1u);
  EXPECT_EQ(
      end("full",
          [&](const wire::Dispatch& d) { bench.tokens(kW1, d, 1, {2}, FinishReason::kLength); }),
      2u);
  EXPECT_EQ(bench.machine.core().counters.succeeded, 2u);
  EXPECT_EQ(bench.machine.core().counters.failed, 1u);
  EXPECT_EQ(bench.machine.core().counters.cancelled, 1u);
  EXPECT_EQ(bench.machine.core().counters.expired, 0u);
  EXPECT_EQ(stats().models.at("m").end_to_end.count(), 2u);
}

TEST(Stats, ModelNames_BeyondTheirBound_CountAsOther) {
  Stats stats;
  for (int i = 0; i < 100; ++i) ++stats.model("m" + std::to_string(i)).generated_tokens;
  ++stats.model("m0").generated_tokens;
  EXPECT_EQ(stats.models.size(), Stats::kModelsMax + 1);
  EXPECT_EQ(stats.models.at("m0").generated_tokens, 2u);
  EXPECT_EQ(stats.models.at("other").generated_tokens, 100 - Stats::kModelsMax);
  EXPECT_EQ(stats.all().generated_tokens, 101u);
}

TEST_F(StatsTest, RecoveredRequests_AfterARestart_AreCountedWithReplayedTokens) {
  bench.boot();
  bench.add_model();
  bench.connect_worker(kW1, "w1");
  bench.submit(bench.submission("a"));
  bench.tokens(kW1, bench.dispatch(kW1), 0, {1, 2, 3});
  bench.submit(bench.submission("ended"));
  bench.tokens(kW1, bench.dispatch(kW1), 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.machine.core().counters.recovered, 0u);
  EXPECT_EQ(bench.machine.core().counters.replayed_tokens, 0u);
  Bench later;
  later.now = bench.now;
  later.boot(bench.database(), 2);
  EXPECT_EQ(later.machine.core().counters.recovered, 1u) << "what has ended is not recovered";
  later.advance_ms(5000);  // nobody adopts
  later.connect_worker(kW1, "w1");
  EXPECT_EQ(later.machine.core().counters.replayed_tokens, 3u);
  EXPECT_EQ(later.machine.core().counters.resumed, 1u);
}

TEST_F(StatsTest, PreparationTime_CountsForTtftNotForQueueWait) {
  bench.boot();
  bench.add_model();
  bench.connect_worker(kW1, "w1");
  bench.submit(bench.text_submission("a"));
  const auto prepares = bench.messages<wire::Prepare>();
  ASSERT_EQ(prepares.size(), 1u);
  bench.advance_ms(40);
  PreparedEvent prepared;
  prepared.peer = Bench::kHelper;
  prepared.prepared.job = prepares[0].job;
  prepared.prepared.ok = true;
  prepared.prepared.ids = {{1, 2}};
  bench.step(prepared);
  const wire::Dispatch d = bench.dispatch(kW1);
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(times().queue_wait.max(), 0);
  EXPECT_EQ(times().first_token.max(), 40'000);
}

TEST_F(StatsTest, TokenGap_AfterAFailover_IsMeasuredButNotAfterARestart) {
  bench.boot();
  bench.add_model();
  bench.connect_worker(kW1, "w1");
  bench.submit(bench.submission("a"));
  bench.tokens(kW1, bench.dispatch(kW1), 0, {1});
  bench.step(PeerGone{kW1});
  bench.advance_ms(200);
  bench.connect_worker(102, "w2");
  bench.tokens(102, bench.dispatch(102), 1, {2});
  EXPECT_EQ(times().token_gap.max(), 200'000);
  EXPECT_EQ(times().queue_wait.count(), 1u) << "work that is resumed has waited before";

  const Boot database = bench.database();
  Bench later;
  later.now = bench.now;
  later.advance_ms(5000);
  later.boot(database, 2);
  later.advance_ms(2000);  // nobody adopts
  later.connect_worker(kW1, "w1");
  later.tokens(kW1, later.dispatch(kW1), 2, {3}, FinishReason::kStop);
  EXPECT_EQ(later.machine.core().stats.all().token_gap.count(), 0u);
  EXPECT_EQ(later.machine.core().stats.all().first_token.count(), 0u);
  EXPECT_EQ(later.machine.core().stats.all().queue_wait.count(), 0u);
  EXPECT_EQ(later.machine.core().stats.all().end_to_end.max(), 7'200'000);
}

TEST_F(StatsTest, ModelSwitch_WhenALoadIsRequested_MeasuresTheTimeUntilReady) {
  bench.boot();
  bench.add_model(1024, 4, 64, true);
  bench.advance_ms(300);
  bench.step(FromWorker{kW1, bench.hello("w1")});
  bench.advance_ms(200);
  EXPECT_EQ(stats().model_switch.count(), 0u);
  wire::StateReport report;
  report.model.load_id = bench.machine.loads().all().begin()->first;
  report.model.state = "ready";
  report.model.slots = 4;
  report.model.pages_total = 64;
  bench.step(FromWorker{kW1, report});
  EXPECT_EQ(stats().model_switch.count(), 1u);
  EXPECT_EQ(stats().model_switch.max(), 500'000) << "from the wish, not from the worker";
  bench.step(OpModel{Bench::kOperator, 1, "models.unload", "m"});
  bench.unloaded(kW1);
  bench.advance_ms(5000);  // nobody waits for it
  bench.step(OpModel{Bench::kOperator, 1, "models.load", "m"});
  bench.advance_ms(100);
  report.model.load_id = bench.machine.loads().all().begin()->first;
  bench.step(FromWorker{kW1, report});
  EXPECT_EQ(stats().model_switch.count(), 2u);
  EXPECT_EQ(stats().model_switch.sum(), 600'000);
}

TEST_F(StatsTest, Refusals_AreCountedByReason) {
  bench.boot();
  bench.add_model(64);
  wire::Submit unknown = bench.submission("a");
  unknown.model = "nobody";
  bench.submit(unknown);
  bench.submit(bench.submission("b", 1000));
  bench.submit(bench.submission("c", 1000));
  const auto refused = [&](Errc code) { return stats().refused[static_cast<std::size_t>(code)]; };
  EXPECT_EQ(refused(Errc::kModelNotFound), 1u);
  EXPECT_EQ(refused(Errc::kContextExceeded), 2u);
  EXPECT_EQ(bench.machine.core().counters.refused, 3u);
}

TEST_F(StatsTest, QueueLines_AreByModelTenantAndPriority) {
  bench.boot();
  bench.add_model(1024, 1);
  bench.add_model(1024, 1, 64, false, "n");
  const auto submit = [&](const std::string& id, const std::string& tenant,
                          wire::PriorityClass priority) {
    wire::Submit submission = bench.submission(id);
    submission.tenant = tenant;
    submission.priority = priority;
    bench.submit(submission);
    bench.advance_ms(10);
  };
  submit("a", "z", wire::PriorityClass::kInteractive);
  submit("b", "x", wire::PriorityClass::kNormal);
  submit("c", "x", wire::PriorityClass::kNormal);
  submit("d", "x", wire::PriorityClass::kBatch);
  submit("e", "y", wire::PriorityClass::kNormal);
  const auto find = [&](const std::string& tenant, wire::PriorityClass priority) {
    for (const QueueLine& line : bench.machine.lifecycle().queue_lines(bench.now.mono_us)) {
      if (line.tenant == tenant && line.priority == priority) return line;
    }
    return QueueLine();
  };
  EXPECT_EQ(bench.machine.lifecycle().queue_lines(bench.now.mono_us).size(), 4u);
  EXPECT_EQ(find("x", wire::PriorityClass::kNormal).waiting, 2);
  EXPECT_EQ(find("x", wire::PriorityClass::kNormal).oldest_wait_us, 40'000);
  EXPECT_EQ(find("x", wire::PriorityClass::kBatch).oldest_wait_us, 20'000);
  EXPECT_EQ(find("x", wire::PriorityClass::kNormal).model, "m");
  bench.connect_worker(kW1, "w1");  // four slots: all but the batch work
  EXPECT_EQ(find("z", wire::PriorityClass::kInteractive).running, 1);
  EXPECT_EQ(find("x", wire::PriorityClass::kNormal).running, 2);
  EXPECT_EQ(find("x", wire::PriorityClass::kNormal).waiting, 0);
  EXPECT_EQ(find("x", wire::PriorityClass::kBatch).waiting, 1);
  bench.tokens(kW1, bench.dispatches(kW1).at(0), 0, {1});
  bench.step(PeerGone{kW1});  // resumed work waits and is counted with the rest
  EXPECT_EQ(find("z", wire::PriorityClass::kInteractive).waiting, 1);
  EXPECT_EQ(find("x", wire::PriorityClass::kNormal).waiting, 2);
  EXPECT_EQ(find("x", wire::PriorityClass::kNormal).running, 0);
}

}  // namespace
}  // namespace holdfast::core::stats_test
