// Goal: a canary is judged by what both sides did, is rolled back at the latest by its second bad
// window, takes nobody's tokens back and loses nobody's request; every decision is a row with its
// numbers.
// Method: verdicts from numbers by hand; then events on the bench with time from the test, also
// over restarts.
#include "control/core/canary.h"
#include "control/core/admission.h"

#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::canary_test {
namespace {

constexpr PeerId kW1 = 101;

// ---- verdicts

SideEvidence good(std::int64_t requests = 100) {
  SideEvidence side;
  side.accepted = side.ended = side.ttft_count = requests;
  side.itl_count = requests * 10;
  side.ttft_p95_us = 100'000;
  side.itl_p95_us = 20'000;
  return side;
}

CanaryVerdict judge(const SideEvidence& canary, const SideEvidence& stable, bool suspect = false,
                    std::int64_t promote_after = 0, std::int64_t passed = 0) {
  CanarySettings settings;
  settings.promote_after = promote_after;
  return judge_window(settings, canary, stable, suspect, passed);
}
constexpr auto kContinue = CanaryDecision::kContinue;
constexpr auto kRollBack = CanaryDecision::kRollBack;
constexpr auto kPromote = CanaryDecision::kPromote;

TEST(CanaryVerdict, CanaryVerdict_WithinBounds_ContinuesOrPromotes) {
  EXPECT_EQ(judge(good(), good()).decision, kContinue);
  EXPECT_FALSE(judge(good(), good()).suspect);
  EXPECT_TRUE(judge(good(), good()).enough);
  EXPECT_EQ(judge(good(), good(), false, 3, 1).decision, kContinue);
  EXPECT_EQ(judge(good(), good(), false, 3, 2).decision, kPromote);
  EXPECT_EQ(judge(good(), good(), true, 1, 0).decision, kPromote);  // the doubt is gone
}

TEST(CanaryVerdict, CanaryVerdict_WhenABoundIsExceeded_SuspectsThenRollsBack) {
  struct Case {
    const char* what;
    std::int64_t SideEvidence::*field;
    std::int64_t within, over;
  };
  const Case cases[] = {
      {"errors", &SideEvidence::failed, 2, 4},
      {"interrupted", &SideEvidence::interrupted, 2, 4},
      {"refusals", &SideEvidence::refused, 2, 4},
      {"queue", &SideEvidence::queue_percent, 400, 401},
      {"ttft", &SideEvidence::ttft_p95_us, 150'000, 151'000},
      {"itl", &SideEvidence::itl_p95_us, 30'000, 31'000},
  };
  for (const Case& c : cases) {
    SideEvidence canary = good();
    canary.*c.field = c.within;
    EXPECT_FALSE(judge(canary, good()).suspect) << c.what;
    canary.*c.field = c.over;
    EXPECT_EQ(judge(canary, good()).decision, kContinue) << c.what;
    EXPECT_TRUE(judge(canary, good()).suspect) << c.what;
    EXPECT_EQ(judge(canary, good(), true).decision, kRollBack) << c.what;
    EXPECT_EQ(judge(canary, good(), true, 1, 5).decision, kRollBack) << c.what;
  }
}

TEST(CanaryVerdict, CanaryVerdict_WhenClearlyFailing_RollsBackAtOnce) {
  SideEvidence canary = good();
  canary.failed = 15;  // more than ten points, and than twice the bound
  EXPECT_EQ(judge(canary, good()).decision, kRollBack);
  canary = good();
  canary.ttft_p95_us = 301'000;
  EXPECT_EQ(judge(canary, good()).decision, kRollBack);
  canary = good();
  canary.itl_p95_us = 61'000;
  EXPECT_EQ(judge(canary, good()).decision, kRollBack);
  canary = good(6);  // too few for a share, but all of them
  canary.failed = 5;
  EXPECT_EQ(judge(canary, good()).decision, kRollBack);
  canary = good(6);
  canary.interrupted = 6;
  EXPECT_EQ(judge(canary, good()).decision, kRollBack);
}

TEST(CanaryVerdict, CanaryVerdict_WhenBothSidesSuffer_SuspectsNothing) {
  SideEvidence canary = good();
  SideEvidence stable = good();
  canary.failed = stable.failed = 60;
  canary.refused = stable.refused = 60;
  canary.queue_percent = stable.queue_percent = 5000;
  canary.ttft_p95_us = stable.ttft_p95_us = 9'000'000;
  EXPECT_FALSE(judge(canary, stable).suspect) << judge(canary, stable).reason;
  EXPECT_TRUE(clearly_failing({}, canary, stable).empty());
}

TEST(CanaryVerdict, CanaryVerdict_WithinTheLatencySlack_SuspectsNothing) {
  SideEvidence canary = good();
  SideEvidence stable = good();
  stable.ttft_p95_us = 1000;
  stable.itl_p95_us = 100;
  canary.ttft_p95_us = 50'000;
  canary.itl_p95_us = 10'000;
  EXPECT_FALSE(judge(canary, stable).suspect) << judge(canary, stable).reason;
}

TEST(CanaryVerdict, Evidence_WhenBelowTheMinimum_DecidesNothing) {
  SideEvidence sparse = good(19);
  sparse.failed = 4;
  sparse.ttft_p95_us = 9'000'000;
  sparse.itl_count = 19;
  sparse.itl_p95_us = 9'000'000;
  const CanaryVerdict verdict = judge(sparse, good(), false, 1, 0);
  EXPECT_EQ(verdict.decision, kContinue);
  EXPECT_FALSE(verdict.enough);
  EXPECT_TRUE(judge(sparse, good(), true).suspect);  // a doubt stays until there are enough
  sparse = good();
  sparse.ttft_p95_us = 9'000'000;
  EXPECT_FALSE(judge(sparse, good(5)).suspect);  // nothing to compare with
}

TEST(CanarySettings, CanarySettings_WhenUnset_TakeDefaultsAndLimitsFromKnobs) {
  Config config;
  config.canary_window_ms = 2000;
  CanarySettings said = nothing_said();
  EXPECT_FALSE(canary_settings(said, config).has_value());  // no percent
  said.percent = 5;
  EXPECT_EQ(canary_settings(said, config).value().window_ms, 2000);
  said.window_ms = 300;
  EXPECT_EQ(canary_settings(said, config).value().window_ms, 300);
  for (const CanaryField& field : canary_fields()) {
    CanarySettings bad = said;
    bad.*field.field = -2;
    EXPECT_FALSE(canary_settings(bad, config).has_value()) << field.name;
    bad.*field.field = 1LL << 41;
    EXPECT_FALSE(canary_settings(bad, config).has_value()) << field.name;
    if (field.knob.empty()) continue;
    const Knob& knob = find_knob(field.knob)->knob();
    for (const std::int64_t value : {knob.min, knob.max}) {
      bad.*field.field = value;
      EXPECT_TRUE(canary_settings(bad, config).has_value()) << field.name << " " << value;
    }
    bad.*field.field = knob.max + 1;
    EXPECT_FALSE(canary_settings(bad, config).has_value()) << field.name;
  }
}

// ---- in the machine

struct CanaryTest : testing::Test {
  static Config config() {
    Config c;
    c.canary_window_ms = 1000;
    c.canary_min_requests = 4;
    c.breaker_failures = 1000;
    return c;
  }
  Bench bench{config()};
  int submitted = 0;

  void SetUp() override {
    bench.boot();
    bench.connect_worker(kW1, "w1");
    bench.add_model(1024, 64, 640, true, "a");
    bench.make_ready(kW1, "class-a", 64, 640);
    bench.add_model(1024, 2, 64, false, "c");
    OpAlias op;
    op.name = "chat";
    op.targets = {{"a", 1}};
    bench.step(op);
  }
  void begin(std::int64_t percent = 50, std::int64_t promote_after = 0) {
    OpCanary op;
    op.peer = Bench::kOperator;
    op.name = "chat";
    op.who = "ann";
    op.model = "c";
    op.settings = nothing_said();
    op.settings.percent = percent;
    op.settings.promote_after = promote_after;
    bench.step(op);
    ASSERT_EQ(bench.durability, Durability::kFull);
    bench.make_ready(kW1, "class-c", 2, 64);
    ASSERT_TRUE(running());
  }
  Errc end(OpCanary::End how) {
    OpCanary op;
    op.peer = Bench::kOperator;
    op.name = "chat";
    op.who = "ann";
    op.end = how;
    bench.step(op);
    for (const Outgoing& o : bench.sent) {
      if (const auto* r = std::get_if<SendOpResult>(&o)) {
        return r->ok ? Errc::kInternal : r->refusal.code;
      }
    }
    return Errc::kTimeout;
  }
  const Alias& alias() { return bench.machine.aliases().all().at("chat"); }
  bool running() { return alias().canary && alias().canary->row.state == CanaryState::kRunning; }
  std::string targets() { return targets_text(alias().row.targets); }
  const Request& request(const std::string& id) { return *bench.machine.request(id); }
  /// Submits until a request goes to this model, whose id it returns; `sent` has its dispatch if it
  /// has one.
  std::string ask(const std::string& model, std::int64_t prompt = 4) {
    for (int i = 0; i < 100; ++i) {
      const std::string id = "r" + std::to_string(++submitted);
      wire::Submit submit = bench.submission(id, 8, prompt);
      submit.model = "chat";
      bench.submit(std::move(submit));
      for (const wire::Dispatch& d : bench.dispatches()) sent[d.request_id] = d;
      if (request(id).row.model == model) return id;
      if (request(id).row.model == "a") finish(id, FinishReason::kStop);
    }
    ADD_FAILURE() << "no request went to " << model;
    return {};
  }
  /// Ends a request that runs; dispatches that follow from it are recorded.
  void finish(const std::string& id, FinishReason how, const char* code = "internal") {
    wire::TokenEvent event;
    event.request_id = id;
    event.fence = sent.at(id).fence;
    event.finish = how;
    if (how == FinishReason::kError) {
      event.error_code = code;
    } else {
      event.ids = {1};
    }
    wire::Tokens tokens;
    tokens.events = {event};
    bench.step(FromWorker{kW1, tokens});
    for (const wire::Dispatch& d : bench.dispatches()) sent[d.request_id] = d;
  }
  /// Requests that each end before the next one comes, whichever model they get.
  void serve(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string id = "s" + std::to_string(++submitted);
      wire::Submit submit = bench.submission(id);
      submit.model = "chat";
      bench.submit(std::move(submit));
      sent[id] = bench.dispatch();
      finish(id, FinishReason::kStop);
    }
  }
  /// The job that a helper was just given; for the tokenizer of this file.
  std::uint64_t prepare_job(const std::string& sha) {
    const auto jobs = bench.messages<wire::Prepare>(Bench::kHelper);
    EXPECT_EQ(jobs.size(), 1u);
    EXPECT_EQ(jobs.empty() ? "" : jobs[0].model_sha, sha);
    return jobs.empty() ? 0 : jobs[0].job;
  }
  std::uint64_t submit_text(const std::string& sha) {
    wire::Submit submit = bench.text_submission("t1");
    submit.model = "chat";
    bench.submit(submit);
    return prepare_job(sha);
  }
  void prepared(std::uint64_t job) {
    wire::Prepared done;
    done.job = job;
    done.ok = true;
    done.ids = {{1, 2, 3}};
    bench.step(PreparedEvent{Bench::kHelper, done});
  }
  void token(const std::string& id, std::int64_t start = 0) {
    bench.tokens(kW1, sent.at(id), start, {static_cast<TokenId>(start + 1)});
  }
  std::vector<CanaryWindowRow> windows() {
    std::vector<CanaryWindowRow> rows;
    for (const auto& change : bench.written<AliasChange>()) {
      if (const auto* w = std::get_if<InsertCanaryWindow>(&change)) rows.push_back(w->row);
    }
    return rows;
  }
  std::vector<std::string> end_reasons() {
    std::vector<std::string> reasons;
    for (const auto& row : bench.written<EndAttempt>()) reasons.push_back(row.reason);
    return reasons;
  }
  void window() { bench.advance_ms(1001); }
  std::map<std::string, wire::Dispatch> sent;
};

TEST_F(CanaryTest, Canary_BeforeItIsReady_GetsNoRequests) {
  OpCanary op;
  op.name = "chat";
  op.model = "c";
  op.settings = nothing_said();
  op.settings.percent = 99;
  bench.step(op);
  for (int i = 0; i < 20; ++i) {
    wire::Submit submit = bench.submission("r" + std::to_string(i));
    submit.model = "chat";
    bench.submit(std::move(submit));
    EXPECT_EQ(request("r" + std::to_string(i)).row.model, "a");
  }
}

TEST_F(CanaryTest, Canary_WhenGood_ContinuesAndIsPromoted) {
  begin(50, 2);
  for (int round = 0; round < 2; ++round) {
    serve(24);
    window();
  }
  ASSERT_EQ(windows().size(), 2u);
  EXPECT_EQ(windows()[0].decision, "continue");
  EXPECT_EQ(windows()[1].decision, "promote");
  EXPECT_GE(windows()[0].canary_side.ended, 5);
  EXPECT_GE(windows()[0].stable_side.ended, 5);
  EXPECT_EQ(windows()[0].ended_ms, windows()[0].started_ms + 1001);
  EXPECT_EQ(windows()[1].started_ms, windows()[0].ended_ms);
  EXPECT_EQ(windows()[1].ended_ms, windows()[1].started_ms + 1001);
  const auto& counted = alias().counters;
  EXPECT_EQ(counted[0].succeeded + counted[1].succeeded, 48u);
  EXPECT_EQ(counted[0].accepted + counted[1].accepted, 48u);
  EXPECT_EQ(counted[0].failed + counted[1].failed, 0u);
  EXPECT_EQ(targets(), "c=1");
  EXPECT_FALSE(alias().canary.has_value());
}

TEST_F(CanaryTest, Canary_WhenItsRequestsFail_IsRolledBackAtOnce) {
  begin();
  int failures = 0;
  while (running() && failures < 20) {
    finish(ask("c"), FinishReason::kError);
    ++failures;
  }
  EXPECT_EQ(failures, Config().canary_clear_errors);
  ASSERT_EQ(windows().size(), 1u);
  EXPECT_EQ(windows()[0].decision, "roll back");
  EXPECT_EQ(windows()[0].canary_side.failed, failures);
  for (int i = 0; i < 50; ++i) {
    wire::Submit submit = bench.submission("after" + std::to_string(i));
    submit.model = "chat";
    bench.submit(std::move(submit));
    EXPECT_EQ(request("after" + std::to_string(i)).row.model, "a");
  }
  EXPECT_EQ(alias().counters[1].failed, static_cast<std::uint64_t>(failures));
}

TEST_F(CanaryTest, Canary_WhenRequestsAreInvalid_IsNotBlamed) {
  begin();
  for (int i = 0; i < 10; ++i) finish(ask("c"), FinishReason::kError, "invalid_request");
  window();
  EXPECT_TRUE(running());
}

TEST_F(CanaryTest, Failure_WithAnyErrorCode_CountsOnItsSide) {
  for (const char* code : {"model_failed", "memory_exhausted", "context_exceeded", "unsupported",
                           "determinism_class_unavailable", "timeout"}) {
    SCOPED_TRACE(code);
    begin();
    for (int i = 0; i < 5 && running(); ++i) finish(ask("c"), FinishReason::kError, code);
    EXPECT_FALSE(running());
    ASSERT_FALSE(windows().empty());
    EXPECT_EQ(windows().back().canary_side.failed, 5);
  }
}

TEST_F(CanaryTest, QuarantinedRequest_WhenItEndsLater_CountsAsOneFailure) {
  bench.step(
      OpConfig{Bench::kOperator, 1, "config.set", "ann", {{"blame.quarantine_after", "1"}}, {}});
  begin();
  const std::string id = ask("c");
  const std::int64_t pid = bench.machine.fleet().workers().at(kW1).hello.pid;
  bench.step(PeerGone{kW1});
  bench.step(WorkerExit{pid, 0, 11, false});
  ASSERT_EQ(request(id).row.state, RequestState::kQuarantined);
  ASSERT_TRUE(running());
  EXPECT_EQ(alias().canary->stats[1].counted.failed, 1);
  EXPECT_EQ(alias().canary->stats[1].counted.ended, 1);
  bench.step(RowsDamaged{request(id).row.seq, "to end it"});
  EXPECT_EQ(alias().canary->stats[1].counted.ended, 1) << "it had failed already";
}

TEST_F(CanaryTest, ClientDisconnect_BeforeTheFirstToken_CountsItsWaitAsTtft) {
  bench.step(OpConfig{
      Bench::kOperator, 1, "config.set", "ann", {{"requests.disconnect_grace_ms", "100"}}, {}});
  begin();
  wire::Submit submit;
  std::string id;
  for (int i = 0; i < 50 && id.empty(); ++i) {
    submit = bench.submission("left" + std::to_string(i));
    submit.model = "chat";
    submit.on_disconnect = wire::OnDisconnect::kCancel;
    bench.submit(submit);
    if (request(submit.request_id).row.model == "c") id = submit.request_id;
  }
  ASSERT_FALSE(id.empty());
  const auto waited = alias().canary->stats[1].ttft.count();
  bench.now.mono_us += 200'000;
  bench.step(FromClient{Bench::kClient, wire::Attach{70, id, "", "", {0}, 10}});
  bench.step(PeerGone{Bench::kClient});
  bench.advance_ms(100);
  ASSERT_EQ(request(id).row.state, RequestState::kCancelled);
  ASSERT_TRUE(running());
  EXPECT_EQ(alias().canary->stats[1].ttft.count(), waited + 1);
  EXPECT_EQ(alias().canary->stats[1].counted.ended, 0) << "a client that leaves is no failure";
}

TEST_F(CanaryTest, CanaryWindow_AtItsEnd_RecordsBothSides) {
  begin();
  const std::int64_t started_ms = bench.now.wall_ms;
  window();
  EXPECT_TRUE(windows().empty()) << "of nothing no row is made, the window goes on";
  std::vector<std::string> of[2];  // ids that run, by side
  std::int64_t accepted[2] = {};
  for (int i = 0; i < 24; ++i) {
    const std::string id = "w" + std::to_string(i);
    wire::Submit submit = bench.submission(id);
    submit.model = "chat";
    bench.submit(std::move(submit));
    const std::size_t side = request(id).row.model == "c" ? 1 : 0;
    ++accepted[side];
    for (const wire::Dispatch& d : bench.dispatches()) {
      sent[d.request_id] = d;
      of[side].push_back(d.request_id);
    }
  }
  ASSERT_EQ(of[1].size(), 2u) << "two slots";
  const std::int64_t waiting = accepted[1] - 2;
  ASSERT_GT(waiting, 2);
  bench.advance_ms(100);
  for (const auto& ids : of) {
    for (const std::string& id : ids) token(id);
  }
  bench.now.mono_us += 30'000;
  for (const auto& ids : of) {
    for (const std::string& id : ids) bench.tokens(kW1, sent.at(id), 1, {2, 3, 4});
  }
  finish(of[0][0], FinishReason::kStop);
  finish(of[1][0], FinishReason::kStop);
  window();
  ASSERT_EQ(windows().size(), 1u);
  const CanaryWindowRow row = windows()[0];
  EXPECT_EQ(row.started_ms, started_ms);
  EXPECT_EQ(row.window, 1);
  for (const std::size_t side : {0, 1}) {
    const SideEvidence& said = side == 0 ? row.stable_side : row.canary_side;
    EXPECT_EQ(said.accepted, accepted[side]) << side;
    EXPECT_EQ(said.ended, 1) << side;
    EXPECT_EQ(said.failed + said.interrupted + said.refused, 0) << side;
    EXPECT_EQ(said.ttft_count, accepted[side]) << "those that wait, too";
    EXPECT_EQ(said.itl_count, 3 * static_cast<std::int64_t>(of[side].size())) << side;
    EXPECT_NEAR(static_cast<double>(said.itl_p95_us), 10'000, 1'000) << side;
  }
  EXPECT_NEAR(static_cast<double>(row.stable_side.ttft_p95_us), 100'000, 10'000);
  EXPECT_GT(row.canary_side.ttft_p95_us, 1'000'000);
  // In percent of the slots: with no requests, at 100 ms, and when one had ended.
  EXPECT_EQ(row.canary_side.queue_percent, (0 + waiting * 50 + (waiting - 1) * 50) / 3);
  EXPECT_EQ(row.stable_side.queue_percent, 0);
}

TEST_F(CanaryTest, HelperRefusal_WhileACanaryRuns_CountsOnItsSide) {
  begin();
  std::array<std::uint64_t, 2> refused{};
  for (int i = 0; i < 12; ++i) {
    wire::Submit submit = bench.text_submission("t" + std::to_string(i));
    submit.model = "chat";
    bench.submit(submit);
    const wire::Prepare job = bench.messages<wire::Prepare>(Bench::kHelper).at(0);
    ++refused[job.model_sha == "sha-c" ? 1 : 0];
    wire::Prepared bad;
    bad.job = job.job;
    bad.refusal = refuse(Errc::kInvalidRequest, "no text");
    bench.step(PreparedEvent{Bench::kHelper, bad});
    EXPECT_EQ(bench.messages<wire::Refused>().size(), 1u);
  }
  EXPECT_GT(refused[0], 0u);
  EXPECT_GT(refused[1], 0u);
  for (std::size_t side = 0; side < 2; ++side) {
    EXPECT_EQ(alias().counters[side].refused, refused[side]);
    EXPECT_EQ(alias().canary->stats[side].counted.refused,
              static_cast<std::int64_t>(refused[side]));
  }
}

TEST_F(CanaryTest, CanaryWorkerDeaths_WhenReportedLater_RollBackAtOnce) {
  begin();
  OpCanary op;
  op.name = "chat";
  op.model = "c";
  op.settings = nothing_said();
  op.settings.percent = 50;
  op.settings.clear_errors = 2;
  bench.step(op);
  ask("c");
  ask("c");
  const std::int64_t pid = bench.machine.fleet().workers().at(kW1).hello.pid;
  bench.step(PeerGone{kW1});
  ASSERT_TRUE(running()) << "a connection that is cut says nothing";
  bench.step(WorkerExit{pid, 0, 11, false});
  EXPECT_FALSE(running());
  ASSERT_FALSE(windows().empty());
  EXPECT_EQ(windows().back().canary_side.interrupted, 2);
  EXPECT_EQ(windows().back().stable_side.interrupted, 0);
  EXPECT_EQ(targets(), "a=1");
}

TEST_F(CanaryTest, RemoveModel_WhenItIsTheCanarys_IsRefused) {
  begin();
  bench.add_model(1024, 2, 64, false, "x");
  bench.step(OpModel{Bench::kOperator, 1, "models.remove", "x"});
  EXPECT_EQ(bench.machine.registry().models().count("x"), 0u);
  bench.step(OpModel{Bench::kOperator, 1, "models.remove", "c"});
  EXPECT_EQ(bench.machine.registry().models().count("c"), 1u);
}

/// A request that was moved from one canary says nothing about the next one's sides.
TEST_F(CanaryTest, ReroutedRequest_WhileTheNextCanaryRuns_CountsOnNoSide) {
  begin();
  const std::string silent = ask("c");
  end(OpCanary::End::kRollBack);
  for (const wire::Dispatch& d : bench.dispatches()) sent[d.request_id] = d;
  ASSERT_EQ(request(silent).row.model, "a");
  ASSERT_EQ(request(silent).row.state, RequestState::kRunning);
  begin();
  finish(silent, FinishReason::kStop);
  EXPECT_EQ(request(silent).row.state, RequestState::kSucceeded);
  EXPECT_EQ(alias().canary->stats[0].counted.ended, 0);
  EXPECT_EQ(alias().canary->stats[1].counted.ended, 0);
}

TEST_F(CanaryTest, ExpiredRequest_WhenRoutedToTheCanary_CountsOnItsSide) {
  begin(99);
  for (int i = 0; i < 8 && alias().counters[1].expired == 0; ++i) {
    wire::Submit submit = bench.submission("late" + std::to_string(i));
    submit.model = "chat";
    submit.total_timeout_ms = 100;
    bench.submit(std::move(submit));
    bench.advance_ms(100);
  }
  EXPECT_EQ(alias().counters[1].expired, 1u);
}

/// The rule of a rollback: nothing that a client has seen moves, everything else does.
TEST_F(CanaryTest, Rollback_WhenRequestsAreOpen_ReroutesOnlyThoseWithoutATokenYet) {
  begin();
  const std::string talks = ask("c");
  const std::string silent = ask("c");
  const std::string waits = ask("c");  // two slots
  token(talks);
  ASSERT_EQ(request(silent).row.state, RequestState::kRunning);
  ASSERT_EQ(request(waits).row.state, RequestState::kQueued);
  const wire::Fence old = sent.at(silent).fence;
  EXPECT_EQ(end(OpCanary::End::kRollBack), Errc::kInternal);
  EXPECT_EQ(bench.durability, Durability::kFull);
  // Rows, cancels and new dispatches leave in one group.
  EXPECT_EQ(bench.messages<wire::CancelWork>(kW1).size(), 1u);
  EXPECT_EQ(bench.messages<wire::CancelWork>(kW1)[0].request_id, silent);
  EXPECT_EQ(end_reasons().back(), "canary_rolled_back");
  for (const std::string& id : {silent, waits}) {
    EXPECT_EQ(request(id).row.model, "a");
    EXPECT_EQ(request(id).row.model_sha, "sha-a");
    EXPECT_EQ(request(id).row.rerouted_from, "c");
    EXPECT_EQ(request(id).row.canary, 0);
    EXPECT_EQ(request(id).row.state, RequestState::kRunning);
    EXPECT_TRUE(request(id).row.numerics_class.empty());
  }
  for (const wire::Dispatch& d : bench.dispatches()) {
    EXPECT_EQ(d.model_sha, "sha-a");
    sent[d.request_id] = d;
  }
  EXPECT_EQ(request(talks).row.model, "c");
  // Tokens of the old attempt count no more.
  wire::Dispatch stale = sent.at(silent);
  stale.fence = old;
  bench.tokens(kW1, stale, 0, {77});
  EXPECT_TRUE(bench.stored_ids(silent).empty());
  finish(silent, FinishReason::kStop);
  finish(waits, FinishReason::kStop);
  bench.tokens(kW1, sent.at(talks), 1, {2}, FinishReason::kStop);
  for (const std::string& id : {silent, waits, talks}) {
    EXPECT_EQ(bench.state(id), RequestState::kSucceeded);
  }
  EXPECT_EQ(alias().counters[1].rerouted, 2u);
}

TEST_F(CanaryTest, Request_WhenNoStableTargetCanServeIt_StaysAtTheCanary) {
  begin();
  const std::string other_tokenizer = ask("c");
  ModelRow& stable = const_cast<ModelRow&>(bench.machine.registry().models().at("a").row);
  stable.tokenizer_sha = "another";
  end(OpCanary::End::kRollBack);
  EXPECT_EQ(request(other_tokenizer).row.model, "c");
  finish(other_tokenizer, FinishReason::kStop);
  EXPECT_EQ(bench.state(other_tokenizer), RequestState::kSucceeded);

  stable.tokenizer_sha = "tokenizer";
  begin();
  const std::string longer = ask("c", 900);
  stable.context = 512;
  end(OpCanary::End::kRollBack);
  EXPECT_EQ(request(longer).row.model, "c");
  // A tokenizer that is not known is not the same.
  begin();
  const std::string unknown = ask("c");
  stable.tokenizer_sha.clear();
  const_cast<ModelRow&>(bench.machine.registry().models().at("c").row).tokenizer_sha.clear();
  end(OpCanary::End::kRollBack);
  EXPECT_EQ(request(unknown).row.model, "c");
}

TEST_F(CanaryTest, Canary_WhenSlow_IsRolledBackWithinTwoWindows) {
  begin();
  for (int round = 0; round < 2 && running(); ++round) {
    std::vector<std::string> slow;
    for (int i = 0; i < 2; ++i) slow.push_back(ask("c"));  // two run
    for (int i = 0; i < 3; ++i) ask("c");                  // these wait
    for (int i = 0; i < 8; ++i) finish(ask("a"), FinishReason::kStop);
    window();
    for (const std::string& id : slow) {
      if (running()) finish(id, FinishReason::kStop);
    }
  }
  EXPECT_FALSE(running());
  EXPECT_LE(windows().size(), 2u);
  EXPECT_EQ(windows().back().decision, "roll back");
  EXPECT_GE(windows().back().canary_side.queue_percent, 100) << "three wait for two slots";
  EXPECT_EQ(windows().back().stable_side.queue_percent, 0);
  EXPECT_NE(windows().back().reason.find("first token"), std::string::npos)
      << windows().back().reason;
  EXPECT_EQ(targets(), "a=1");
}

/// Other settings are a fresh start: suspicion under the old ones does not count.
TEST_F(CanaryTest, Suspicion_WhenTheCanarySettingsChange_IsCleared) {
  begin();
  const_cast<CanaryRow&>(alias().canary->row).suspect = true;
  OpCanary op;
  op.peer = Bench::kOperator;
  op.name = "chat";
  op.who = "bob";
  op.model = "c";
  op.settings = nothing_said();
  op.settings.percent = 60;
  bench.step(op);
  EXPECT_FALSE(alias().canary->row.suspect);
  end(OpCanary::End::kRollBack);
  std::vector<std::string> actions;
  for (const auto& change : bench.written<AliasChange>()) {
    if (const auto* h = std::get_if<InsertAliasHistory>(&change)) actions.push_back(h->row.action);
  }
  EXPECT_EQ(actions.back(), "canary rolled back");
}

TEST_F(CanaryTest, Canary_WhenItsFirstLoadFails_IsRolledBack) {
  OpCanary op;
  op.name = "chat";
  op.model = "c";
  op.settings = nothing_said();
  op.settings.percent = 10;
  bench.step(op);
  const auto loads = bench.messages<wire::Load>(kW1);
  ASSERT_EQ(loads.size(), 1u);
  wire::StateReport report;
  report.model.load_id = loads[0].load_id;
  report.model.state = "failed";
  report.model.reason = "out of memory";
  bench.step(FromWorker{kW1, report});
  EXPECT_FALSE(alias().canary.has_value());
  ASSERT_EQ(windows().size(), 1u);
  EXPECT_EQ(windows()[0].reason, "its load failed: out of memory");
}

/// The canary's worker goes and the model cannot be loaded again: requests that wait for it go on.
TEST_F(CanaryTest, Canary_WhenItsRunningLoadFails_ReroutesItsRequests) {
  begin();
  const std::string silent = ask("c");
  for (const auto& [id, load] : std::map(bench.machine.loads().all().by_id())) {
    if (load.row.model != "c") continue;
    wire::StateReport report;
    report.model.load_id = id;
    report.model.state = "failed";
    report.model.reason = "file_invalid: gone";
    bench.step(FromWorker{kW1, report});
  }
  EXPECT_FALSE(running());
  EXPECT_EQ(bench.machine.registry().models().at("c").row.state, ModelState::kFailed);
  EXPECT_EQ(request(silent).row.model, "a");
  EXPECT_FALSE(request(silent).terminal());
}

TEST_F(CanaryTest, CanaryWindow_BelowMinimumRequests_ContinuesCounting) {
  begin();
  for (int round = 0; round < 3; ++round) {
    finish(ask("c"), FinishReason::kStop);
    window();
  }
  ASSERT_EQ(windows().size(), 3u);
  EXPECT_EQ(windows()[2].canary_side.ended, 3);
  EXPECT_NE(windows()[2].reason.find("too few"), std::string::npos);
  finish(ask("c"), FinishReason::kStop);
  window();
  EXPECT_EQ(windows()[3].reason, "within its bounds");
  window();  // nothing happened: nothing to decide, no row
  EXPECT_EQ(windows().size(), 4u);
  finish(ask("c"), FinishReason::kStop);
  window();
  EXPECT_EQ(windows()[4].canary_side.ended, 1);
}

TEST_F(CanaryTest, Canary_AfterARestart_BeginsItsWindowAgain) {
  begin(50, 3);
  for (int i = 0; i < 5; ++i) finish(ask("c"), FinishReason::kStop);
  window();
  for (int i = 0; i < 3; ++i) finish(ask("c"), FinishReason::kError);
  Boot database = bench.database();
  const auto before = windows().size();
  bench = Bench(config());
  bench.now.mono_us += 60'000'000;
  bench.boot(std::move(database), 2);
  ASSERT_TRUE(running());
  EXPECT_EQ(alias().canary->row.windows, static_cast<std::int64_t>(before));
  EXPECT_EQ(alias().canary->row.passed, 1);
  EXPECT_EQ(alias().canary->row.settings.promote_after, 3);
  EXPECT_EQ(alias().canary->stats[1].counted.failed, 0);
  window();
  EXPECT_TRUE(running());
}

/// The queue is longer than what a start reads at once: its tail learns of the rollback too.
TEST_F(CanaryTest, UnreadRequests_AfterARollback_AreReroutedWhenRead) {
  begin();
  const std::string first = ask("c");
  ask("c");
  const std::string waits = ask("c");
  Boot database = bench.database();
  BootQueuePage late;
  for (auto it = database.requests.begin(); it != database.requests.end();) {
    if (it->row.id != waits) {
      ++it;
      continue;
    }
    late.requests.push_back(*it);
    it = database.requests.erase(it);
  }
  late.last = true;
  database.unread = 1;
  bench = Bench(config());
  bench.boot(std::move(database), 2);
  end(OpCanary::End::kRollBack);
  EXPECT_EQ(request(first).row.model, "a");  // its worker has not come back: no token, no loss
  bench.step(late);
  EXPECT_EQ(bench.durability, Durability::kFull);
  EXPECT_EQ(request(waits).row.model, "a");
  EXPECT_EQ(request(waits).row.rerouted_from, "c");
}

TEST_F(CanaryTest, Alias_WhileACanaryRuns_RefusesOtherChanges) {
  begin();
  bench.add_model(1024, 2, 64, false, "d");
  OpCanary op;
  op.peer = Bench::kOperator;
  op.name = "chat";
  op.settings = nothing_said();
  op.settings.percent = 5;
  const auto refused = [&](const std::string& model) {
    op.model = model;
    bench.step(op);
    for (const Outgoing& o : bench.sent) {
      if (const auto* r = std::get_if<SendOpResult>(&o)) return !r->ok;
    }
    return false;
  };
  EXPECT_TRUE(refused("d"));
  EXPECT_TRUE(refused("a"));
  EXPECT_TRUE(refused("chat"));
  EXPECT_TRUE(refused("nobody"));
  EXPECT_FALSE(refused("c"));  // other settings for the same one
  EXPECT_EQ(alias().canary->row.settings.percent, 5);
  EXPECT_TRUE(running());
  OpAlias change;
  change.name = "chat";
  change.targets = {{"d", 1}};
  bench.step(change);
  EXPECT_EQ(targets(), "a=1");
  EXPECT_EQ(end(OpCanary::End::kPromote), Errc::kInternal);
  EXPECT_EQ(targets(), "c=1");
  EXPECT_EQ(end(OpCanary::End::kPromote), Errc::kConflict);
}

/// A prompt that was prepared for the canary's tokenizer while the canary ended: it is prepared
/// again, and its client notices nothing.
TEST_F(CanaryTest, PreparedPrompt_WhenTheCanaryEndedMeanwhile_IsPreparedAgain) {
  begin(99);
  const auto first = submit_text("sha-c");
  end(OpCanary::End::kRollBack);
  prepared(first);
  prepared(prepare_job("sha-a"));
  ASSERT_EQ(bench.messages<wire::Accepted>().size(), 1u);
  EXPECT_EQ(request("t1").row.model, "a");
}

/// A prompt that was prepared for a model which has been removed.
TEST_F(CanaryTest, PreparedPrompt_WhenItsModelWasRemoved_IsPreparedAgain) {
  const auto first = submit_text("sha-a");
  OpAlias change;
  change.peer = Bench::kOperator;
  change.tag = 1;
  change.name = "chat";
  change.targets = {{"c", 1}};
  bench.step(change);
  bench.step(OpModel{Bench::kOperator, 2, "models.unload", "a"});
  bench.unloaded(kW1);
  bench.step(OpModel{Bench::kOperator, 2, "models.remove", "a"});
  ASSERT_EQ(bench.machine.registry().models().count("a"), 0u);
  prepared(first);
  prepare_job("sha-c");
}

TEST_F(CanaryTest, Canary_WithoutAPercent_IsRefused) {
  OpCanary op;
  op.peer = Bench::kOperator;
  op.name = "chat";
  op.model = "c";
  op.settings = nothing_said();
  bench.step(op);
  const auto* answer = std::get_if<SendOpResult>(&bench.sent.at(0));
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->refusal.code, Errc::kUsage);
  EXPECT_EQ(answer->refusal.message, "models.canary: canary percent: expected 1 to 99, not -1");
  EXPECT_FALSE(alias().canary.has_value());
  EXPECT_EQ(end(OpCanary::End::kRollBack), Errc::kConflict);
}

TEST_F(CanaryTest, Canary_WhenNotReadyInTime_IsRolledBack) {
  bench.step(PeerGone{kW1});
  OpCanary op;
  op.name = "chat";
  op.model = "c";
  op.settings = nothing_said();
  op.settings.percent = 10;
  bench.step(op);
  bench.advance_ms(config().aliases_ready_timeout_ms - 1);
  EXPECT_TRUE(alias().canary.has_value());
  bench.advance_ms(1);
  EXPECT_FALSE(alias().canary.has_value());
  ASSERT_EQ(windows().size(), 1u);
  EXPECT_EQ(windows()[0].reason,
            "not ready within " + std::to_string(config().aliases_ready_timeout_ms) + " ms");
}

/// The process ended after the model had failed and before its canary was told.
TEST_F(CanaryTest, Canary_WhenItsModelFailedBeforeARestart_IsRolledBack) {
  OpCanary op;
  op.name = "chat";
  op.model = "c";
  op.settings = nothing_said();
  op.settings.percent = 10;
  bench.step(op);
  Boot database = bench.database();
  for (ModelRow& row : database.models) {
    if (row.name != "c") continue;
    row.state = ModelState::kFailed;
    row.reason = "out of memory";
    row.load_requested = false;
  }
  std::erase_if(database.loads, [](const LoadRow& row) { return row.model == "c"; });
  bench = Bench(config());
  bench.boot(std::move(database), 2);
  EXPECT_FALSE(alias().canary.has_value());
  ASSERT_EQ(windows().size(), 1u);
  EXPECT_EQ(windows()[0].reason, "its load failed: out of memory");
}

TEST_F(CanaryTest, Rollback_WhenBothModelsAreTheSameFile_ReroutesRequests) {
  begin();
  const std::string silent = ask("c");
  for (const char* name : {"a", "c"}) {
    ModelRow& row = const_cast<ModelRow&>(bench.machine.registry().models().at(name).row);
    row.sha = "sha-of-both";
    row.tokenizer_sha.clear();
  }
  end(OpCanary::End::kRollBack);
  EXPECT_EQ(request(silent).row.model, "a");
  EXPECT_EQ(request(silent).row.rerouted_from, "c");
}

/// An empty answer is an answer: its client has been told.
TEST_F(CanaryTest, Rollback_WhenAChoiceHasEnded_LeavesTheRequest) {
  begin(99);
  wire::Submit two = bench.submission("two");
  two.model = "chat";
  two.n = 2;
  bench.submit(two);
  ASSERT_EQ(request("two").row.model, "c");
  const auto of_two = bench.dispatches(kW1);
  ASSERT_EQ(of_two.size(), 2u);
  bench.tokens(kW1, of_two[0], 0, {}, FinishReason::kStop);
  ASSERT_EQ(request("two").choices[0].row.next_index, 0);
  end(OpCanary::End::kRollBack);
  EXPECT_EQ(request("two").row.model, "c");
  EXPECT_TRUE(bench.messages<wire::CancelWork>().empty());
  bench.tokens(kW1, of_two[1], 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.state("two"), RequestState::kSucceeded);
}

// ---- aliases that go, and databases that do not fit together

TEST_F(CanaryTest, PreparedPrompt_WhenItsAliasWasDeleted_GoesToItsTarget) {
  const auto job = submit_text("sha-a");
  OpAlias gone;
  gone.name = "chat";
  bench.step(gone);
  ASSERT_TRUE(bench.machine.aliases().all().empty());
  prepared(job);
  ASSERT_EQ(bench.messages<wire::Accepted>().size(), 1u);
  EXPECT_EQ(request("t1").row.model, "a");
  EXPECT_EQ(request("t1").row.alias, "chat");
  bench.tokens(kW1, bench.dispatch(kW1), 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.state("t1"), RequestState::kSucceeded);
}

TEST_F(CanaryTest, HelperRefusal_WhenTheAliasWasDeleted_IsSentToTheClient) {
  const auto job = submit_text("sha-a");
  OpAlias gone;
  gone.name = "chat";
  bench.step(gone);
  wire::Prepared bad;
  bad.job = job;
  bad.refusal = refuse(Errc::kInvalidRequest, "no text");
  bench.step(PreparedEvent{Bench::kHelper, bad});
  ASSERT_EQ(bench.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.message, "no text");
  EXPECT_EQ(bench.machine.core().counters.refused, 1u);
}

TEST_F(CanaryTest, PreparedPrompt_WhenCanaryAndAliasAreGone_IsRefused) {
  begin(99);
  const auto job = submit_text("sha-c");
  end(OpCanary::End::kRollBack);
  OpAlias gone;
  gone.name = "chat";
  bench.step(gone);
  prepared(job);
  ASSERT_EQ(bench.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kModelNotFound);
  EXPECT_EQ(bench.machine.request("t1"), nullptr);
}

TEST_F(CanaryTest, Canary_WhenItsAliasIsMissingAtStart_IsForgotten) {
  begin();
  Boot database = bench.database();
  database.aliases.clear();
  bench = Bench(config());
  bench.boot(std::move(database), 2);
  EXPECT_TRUE(bench.machine.aliases().all().empty());
  wire::Submit submit = bench.submission("r1");
  submit.model = "chat";
  bench.submit(submit);
  ASSERT_EQ(bench.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kModelNotFound);
}

/// A request of a canary that was rolled back before this start.
struct RolledBackCanaryTest : CanaryTest {
  Boot database;
  std::string silent;

  void SetUp() override {
    CanaryTest::SetUp();
    begin();
    silent = ask("c");
    database = bench.database();
    for (CanaryRow& row : database.canaries) row.state = CanaryState::kRolledBack;
  }
  std::string model_after_start() {
    bench = Bench(config());
    bench.boot(database, 2);
    return request(silent).row.model;
  }
  ModelRow& row_of(const std::string& name) {
    return *std::find_if(database.models.begin(), database.models.end(),
                         [&](const ModelRow& row) { return row.name == name; });
  }
};

TEST_F(RolledBackCanaryTest, Request_WhenTheCanaryWasRolledBack_IsReroutedAtStart) {
  EXPECT_EQ(model_after_start(), "a");
  EXPECT_EQ(request(silent).row.rerouted_from, "c");
}

TEST_F(RolledBackCanaryTest, Request_WhenTheAliasIsGone_StaysAtItsModel) {
  database.aliases.clear();
  EXPECT_EQ(model_after_start(), "c");
  EXPECT_FALSE(request(silent).terminal());
}

TEST_F(RolledBackCanaryTest, Request_WhenAModelIsGone_StaysAtItsModel) {
  const Boot whole = database;
  for (const char* name : {"a", "c"}) {
    database = whole;
    std::erase_if(database.models, [&](const ModelRow& row) { return row.name == name; });
    std::erase_if(database.loads, [&](const LoadRow& row) { return row.model == name; });
    EXPECT_EQ(model_after_start(), "c") << name;
    EXPECT_EQ(request(silent).row.rerouted_from, "");
  }
}

TEST_F(RolledBackCanaryTest, Request_WhenTheStableModelHasFailed_StaysAtItsModel) {
  row_of("a").state = ModelState::kFailed;
  row_of("a").load_requested = false;
  std::erase_if(database.loads, [](const LoadRow& row) { return row.model == "a"; });
  EXPECT_EQ(model_after_start(), "c");
}

/// The number of canaries that are remembered as rolled back has a bound.
TEST_F(CanaryTest, UnreadRequest_WhenItsCanaryIsTooOld_StaysAtItsModel) {
  begin();
  ask("c");
  ask("c");
  const std::string waits = ask("c");
  Boot whole = bench.database();
  BootQueuePage late;
  for (const BootRequest& request : whole.requests) {
    if (request.row.id == waits) late.requests.push_back(request);
  }
  std::erase_if(whole.requests, [&](const BootRequest& r) { return r.row.id == waits; });
  late.last = true;
  whole.unread = 1;
  for (const std::size_t more : {kCanaryHistoryMax - 1, kCanaryHistoryMax}) {
    bench = Bench(config());
    bench.boot(whole, 2);
    bench.connect_worker(kW1, "w1");
    end(OpCanary::End::kRollBack);
    for (std::size_t i = 0; i < more; ++i) {
      OpCanary op;
      op.name = "chat";
      op.model = "c";
      op.settings = nothing_said();
      op.settings.percent = 1;
      bench.step(op);
      ASSERT_TRUE(alias().canary.has_value());
      end(OpCanary::End::kRollBack);
    }
    bench.step(late);
    EXPECT_EQ(request(waits).row.model, more == kCanaryHistoryMax ? "c" : "a") << more;
  }
}

}  // namespace
}  // namespace holdfast::core::canary_test
