// Goal: the parts of the machine keep their own rules: order of work, state table, admission
// numbers, credits, streams, placement, knobs.
// Method: direct calls, and for streams and placement events into a machine.
#include <gtest/gtest.h>

#include <random>

#include "control/core/admission.h"
#include "control/core/queue.h"
#include "tests/core/bench_machine.h"

namespace holdfast::core::parts_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kW2 = 102;

QueueItem item(Seq seq, const std::string& tenant = "t",
               PriorityClass priority = PriorityClass::kNormal, bool resumed = false,
               std::int64_t cost = 10) {
  return {{seq, 0}, priority, resumed, tenant, cost};
}

std::vector<Seq> drain(WorkQueue& queue) {
  std::vector<Seq> order;
  while (queue.head() != nullptr) {
    order.push_back(queue.head()->ref.seq);
    queue.take(queue.head()->ref);
  }
  return order;
}

TEST(WorkQueue, Order_IsByPriorityThenResumedThenAge) {
  WorkQueue queue;
  queue.push(item(1, "t", PriorityClass::kBatch, true));
  queue.push(item(2));
  queue.push(item(3, "t", PriorityClass::kNormal, true));
  queue.push(item(4, "t", PriorityClass::kInteractive));
  queue.push(item(5));
  EXPECT_EQ(queue.position({2, 0}), 2);
  EXPECT_EQ(queue.position({9, 0}), -1);
  EXPECT_FALSE(queue.remove({9, 0}));
  EXPECT_EQ(drain(queue), (std::vector<Seq>{4, 3, 2, 5, 1}));
}

TEST(WorkQueue, Head_WhenSomeItemsMayNotRun_SkipsThem) {
  WorkQueue queue;
  queue.push(item(1, "t", PriorityClass::kNormal, true));
  queue.push(item(2, "t"));
  queue.push(item(3, "u"));
  const auto not_t = [](const QueueItem& one) { return one.tenant != "t"; };
  EXPECT_EQ(queue.head()->ref.seq, 1);
  EXPECT_EQ(queue.head({}, not_t)->ref.seq, 3);
  EXPECT_EQ(queue.head({}, [](const QueueItem&) { return false; }), nullptr);
}

TEST(WorkQueue, TenantShare_WhenRequestCostsDiffer_IsByTokens) {
  // "a" asks for four times as much with each request: it gets a quarter of the turns.
  WorkQueue queue;
  for (Seq seq = 1; seq <= 100; ++seq)
    queue.push(item(seq, "a", PriorityClass::kNormal, false, 40));
  for (Seq seq = 101; seq <= 200; ++seq)
    queue.push(item(seq, "b", PriorityClass::kNormal, false, 10));
  int a = 0;
  int b = 0;
  for (int i = 0; i < 100; ++i) {
    (queue.head()->tenant == "a" ? a : b) += 1;
    queue.take(queue.head()->ref);
  }
  EXPECT_NEAR(a, 20, 2);
  EXPECT_NEAR(b, 80, 2);
}

TEST(WorkQueue, TenantShare_WithWeights_FollowsThem) {
  WorkQueue queue;
  for (Seq seq = 1; seq <= 100; ++seq) {
    QueueItem heavy = item(seq, "a");
    heavy.weight = 3;
    queue.push(heavy);
    queue.push(item(100 + seq, "b"));
  }
  int a = 0;
  for (int i = 0; i < 80; ++i) {
    a += queue.head()->tenant == "a";
    queue.take(queue.head()->ref);
  }
  EXPECT_NEAR(a, 60, 2);
}

TEST(Tenants, TenantConfig_WithWeightAndBound_AppliesToThatTenantOnly) {
  Config config;
  config.tenants["big"].weight = 4;
  config.tenants["small"].max_requests = 1;
  Bench bench(config);
  bench.boot();
  bench.add_model(1024, 1);
  bench.step(OpPause{Bench::kOperator, 1, true});
  const auto submit = [&](const std::string& id, const std::string& tenant) {
    wire::Submit s = bench.submission(id);
    s.tenant = tenant;
    bench.submit(std::move(s));
    return bench.messages<wire::Accepted>().size() == 1;
  };
  EXPECT_TRUE(submit("s1", "small"));
  EXPECT_FALSE(submit("s2", "small"));
  EXPECT_NE(bench.messages<wire::Refused>()[0].refusal.message.find(
                "tenant small has 1 requests; tenant.small.max_requests is 1"),
            std::string::npos);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(submit("a" + std::to_string(i), "any"));
    EXPECT_TRUE(submit("b" + std::to_string(i), "big"));
  }
  bench.step(OpPause{Bench::kOperator, 2, false});
  bench.step(FromWorker{kW1, bench.hello("w1")});
  bench.make_ready(kW1, "class-a", 1);
  int big = 0;
  wire::Dispatch next = bench.dispatch();
  for (int i = 0; i < 20; ++i) {
    big += next.request_id[0] == 'b';
    bench.tokens(kW1, next, 0, {1}, FinishReason::kStop);
    next = bench.dispatch();
  }
  EXPECT_NEAR(big, 15, 2);
}

TEST(WorkQueue, ReturningTenant_AfterItsIdleTime_HasSavedNoTurns) {
  WorkQueue queue;
  for (Seq seq = 1; seq <= 50; ++seq) queue.push(item(seq, "a"));
  for (int i = 0; i < 40; ++i) queue.take(queue.head()->ref);
  for (Seq seq = 101; seq <= 120; ++seq) queue.push(item(seq, "late"));
  int late = 0;
  for (int i = 0; i < 10; ++i) {
    late += queue.head()->tenant == "late";
    queue.take(queue.head()->ref);
  }
  EXPECT_LE(late, 6);
}

TEST(WorkQueue, WorkQueue_AfterRandomPushRemovePop_HasTheRightSize) {
  WorkQueue queue;
  std::mt19937 random(7);
  std::set<Seq> inside;
  std::set<Seq> running;
  for (int i = 0; i < 20'000; ++i) {
    const Seq seq = static_cast<Seq>(random() % 500);
    if (running.count(seq) > 0) {
      queue.end({seq, 0}, static_cast<std::int64_t>(random() % 20));
      running.erase(seq);
    } else if (inside.count(seq) == 0) {
      queue.push(item(seq, "t" + std::to_string(random() % 5),
                      static_cast<PriorityClass>(random() % 3), random() % 4 == 0));
      inside.insert(seq);
    } else if (random() % 2 == 0) {
      EXPECT_TRUE(queue.remove({seq, 0}));
      inside.erase(seq);
    } else {
      const Seq head = queue.head()->ref.seq;
      queue.take(queue.head()->ref);
      EXPECT_EQ(inside.erase(head), 1u);
      running.insert(head);
    }
    ASSERT_EQ(queue.size(), inside.size());
  }
  EXPECT_FALSE(queue.idle());
  EXPECT_EQ(drain(queue).size(), inside.size());
  running.insert(inside.begin(), inside.end());
  for (const Seq seq : running) queue.end({seq, 0}, 0);
  EXPECT_TRUE(queue.idle());
}

TEST(RequestStates, TerminalState_HasNoTransitionOut) {
  for (int s = 0; s <= static_cast<int>(RequestState::kQuarantined); ++s) {
    const auto state = static_cast<RequestState>(s);
    for (int c = 0; c <= static_cast<int>(RequestChange::kReleased); ++c) {
      const auto next = next_state(state, static_cast<RequestChange>(c));
      if (wire::is_terminal(state)) {
        EXPECT_FALSE(next.has_value());
      }
    }
    if (!wire::is_terminal(state)) {
      EXPECT_TRUE(next_state(state, RequestChange::kCancelled).has_value());
      EXPECT_TRUE(next_state(state, RequestChange::kExpired).has_value());
    }
  }
}

TEST(Admission, AdmitContext_WhenTheContextIsExceeded_RefusesWithItsNumbers) {
  EXPECT_FALSE(admit_context({10}, 90, 100, 1000).refusal);
  const auto too_long = admit_context({10, 20}, 90, 100, 1000);
  ASSERT_TRUE(too_long.refusal);
  EXPECT_EQ(too_long.refusal->code, Errc::kContextExceeded);
  EXPECT_EQ(too_long.refusal->needed, 110);
  EXPECT_EQ(too_long.refusal->largest, 100);
  EXPECT_EQ(too_long.refusal->free, 80);
  EXPECT_EQ(admit_context({10, 20}, std::nullopt, 100, 1000).max_tokens, 80);
  EXPECT_EQ(admit_context({10}, std::nullopt, 100, 64).max_tokens, 54);  // the pool is smaller
  EXPECT_TRUE(admit_context({100}, std::nullopt, 100, 1000).refusal);
  EXPECT_FALSE(admit_context({100}, 0, 100, 1000).refusal);
}

TEST(Credits, FitsNow_WhileChoicesRun_ReservesOnePageEachToGrow) {
  Load load;
  load.row.slots = 4;
  load.row.pages = 10;
  load.row.page_tokens = 64;
  load.running = {{1, 0}, {2, 0}};
  load.pages_used = 4;
  EXPECT_TRUE(fits_now(load, 255));   // 4 pages + 2 to grow = 6 free
  EXPECT_FALSE(fits_now(load, 256));  // its first token needs a fifth page
  load.running = {{1, 0}, {2, 0}, {3, 0}, {4, 0}};
  EXPECT_FALSE(fits_now(load, 1));
}

TEST(Credits, PagesFor_WithoutAPageSize_Assumes64Tokens) {
  EXPECT_EQ(pages_for(64, 0), 1);
  EXPECT_EQ(pages_for(65, 0), 2);
  EXPECT_EQ(pages_for(65, 65), 1);
}

TEST(Streams, StreamHub_WhenNobodyReadsARequest_HasNoStreamsOfIt) {
  StreamHub hub;
  Subscription one;
  one.peer = 1;
  one.tag = 2;
  one.seq = 3;
  hub.add(one);
  EXPECT_TRUE(hub.of_request(4).empty());
  EXPECT_EQ(hub.of_request(3), (std::vector<StreamHub::Key>{{1, 2}}));
  EXPECT_EQ(hub.remove(1, 2), 3);
  EXPECT_TRUE(hub.of_request(3).empty());
}

TEST(Envelope, FitEnvelope_WhenMemoryIsShort_ShrinksThePoolToOneContext) {
  ModelRow row;
  row.context = 640;
  row.pages = 100;
  row.kv_bytes = 1000 * 100;
  row.weights_bytes = 5000;
  row.scratch_bytes = 500;
  std::int64_t needed = 0;
  EXPECT_EQ(fit_envelope(row, 1'000'000, Pages::kAtLeastAContext, &needed)->pages, 100);
  EXPECT_EQ(needed, 5500 + 10 * 1000);
  EXPECT_EQ(fit_envelope(row, 5500 + 25'000, Pages::kAtLeastAContext, &needed)->pages, 25);
  EXPECT_FALSE(fit_envelope(row, needed - 1, Pages::kAtLeastAContext, &needed).has_value());
  EXPECT_FALSE(fit_envelope(row, 5500 + 99'999, Pages::kAll, &needed).has_value());
  EXPECT_EQ(needed, 5500 + 100 * 1000);
  EXPECT_EQ(fit_envelope(row, needed, Pages::kAll, nullptr)->pages, 100);
  row.kv_bytes += 1;  // a page is rounded up
  EXPECT_EQ(fit_envelope(row, 1'000'000, Pages::kAtLeastAContext, &needed)->bytes,
            5500 + 100 * 1001);
  EXPECT_EQ(needed, 5500 + 10 * 1001);
}

TEST(Envelope, FitEnvelope_WhenTheContextIsOnePage_NeedsOnePage) {
  ModelRow row;
  row.context = 64;
  row.pages = 4;
  row.kv_bytes = 4000;
  EXPECT_EQ(fit_envelope(row, 1000, Pages::kAtLeastAContext, nullptr)->pages, 1);
  EXPECT_FALSE(fit_envelope(row, 999, Pages::kAtLeastAContext, nullptr).has_value());
  row.pages = 1;
  row.context = 640;
  row.kv_bytes = 1000;
  EXPECT_EQ(fit_envelope(row, 1000, Pages::kAtLeastAContext, nullptr)->bytes, 1000);
  EXPECT_EQ(largest_context(row, 1000), 64);
}

TEST(Envelope, LargestContext_WithTheMemoryLeft_IsInWholePages) {
  ModelRow row;
  row.context = 640;
  row.pages = 100;
  row.kv_bytes = 100'000;
  row.weights_bytes = 5000;
  row.scratch_bytes = 500;
  EXPECT_EQ(largest_context(row, 5500), 0);
  EXPECT_EQ(largest_context(row, 6499), 0);
  EXPECT_EQ(largest_context(row, 6500), 64);
  EXPECT_EQ(largest_context(row, 8499), 128);
  EXPECT_EQ(largest_context(row, 1'000'000), 640) << "what was wished";
  row.kv_bytes = 100;
  EXPECT_EQ(largest_context(row, INT64_MAX), 640) << "a pool that does not say its size";
  row.kv_bytes = 0;  // tokens cost nothing
  EXPECT_EQ(largest_context(row, 5501), 640);
  EXPECT_EQ(largest_context(row, 5500), 0);
  std::int64_t needed = 0;
  EXPECT_EQ(fit_envelope(row, 5500, Pages::kAtLeastAContext, &needed)->pages, 100);
  EXPECT_EQ(needed, 5500);
  row.pages = 0;
  row.kv_bytes = 1000;
  EXPECT_EQ(fit_envelope(row, 10'000, Pages::kAtLeastAContext, nullptr)->pages, 1)
      << "never less than one";
}

TEST(Knobs, SetKnob_WhenOutOfRangeOrUnknown_IsRefused) {
  Config config;
  EXPECT_TRUE(set_knob(config, "queue.max_requests=5").has_value());
  EXPECT_EQ(config.queue_max_requests, 5);
  for (const char* bad : {"queue.max_requests=0", "queue.max_requests=x",
                          "queue.max_requests=", "queue.max=1", "nonsense"}) {
    EXPECT_EQ(set_knob(config, bad).error().code, Errc::kUsage) << bad;
  }
  const Config defaults;
  for (const Knob& knob : knobs()) {
    if (knob.text != nullptr) {
      EXPECT_TRUE(knob.good(defaults.*knob.text)) << knob.name;
      continue;
    }
    EXPECT_GE(defaults.*knob.field, knob.min) << knob.name;
    EXPECT_LE(defaults.*knob.field, knob.max) << knob.name;
  }
}

// ---- streams

struct StreamTest : testing::Test {
  Bench bench;
  wire::Dispatch d;
  void SetUp() override {
    bench.boot();
    bench.add_model();
    bench.connect_worker(kW1, "w1");
    bench.submit(bench.submission("r1", 100));
    d = bench.dispatch();
  }
};

TEST_F(StreamTest, Stream_AfterAttach_SendsTokensOnceInOrderThenFin) {
  bench.tokens(kW1, d, 0, {1, 2, 3});
  EXPECT_TRUE(bench.events().empty());
  bench.step(FromClient{1, wire::Attach{5, "r1", "", "", {1}, 64}});
  ASSERT_EQ(bench.messages<wire::Attached>(1).size(), 1u);
  ASSERT_EQ(bench.events(1).size(), 1u);
  EXPECT_EQ(bench.events(1)[0].ids, (std::vector<TokenId>{2, 3}));
  bench.tokens(kW1, d, 3, {4});
  EXPECT_EQ(bench.events(1)[0].ids, std::vector<TokenId>{4});
  bench.tokens(kW1, d, 3, {4});  // the worker repeats itself
  EXPECT_TRUE(bench.events(1).empty());
  bench.tokens(kW1, d, 4, {5}, FinishReason::kStop);
  ASSERT_EQ(bench.events(1).size(), 1u);
  ASSERT_EQ(bench.messages<wire::Fin>(1).size(), 1u);
  EXPECT_EQ(bench.messages<wire::Fin>(1)[0].info.choices[0].next_index, 5);
}

TEST_F(StreamTest, Stream_WhenTheWindowIsFull_WaitsForCredit) {
  bench.step(FromClient{1, wire::Attach{5, "r1", "", "", {}, 2}});
  bench.tokens(kW1, d, 0, {1, 2, 3, 4, 5}, FinishReason::kStop);
  ASSERT_EQ(bench.events(1).size(), 1u);
  EXPECT_EQ(bench.events(1)[0].until, 2);
  EXPECT_TRUE(bench.messages<wire::Fin>(1).empty());
  bench.step(FromClient{1, wire::Credit{5, "r1", 0, 1000}});  // more than it got: no wider window
  ASSERT_EQ(bench.events(1).size(), 1u);
  EXPECT_EQ(bench.events(1)[0].until, 4);
  bench.step(FromClient{1, wire::Credit{5, "r1", 0, 4}});
  EXPECT_EQ(bench.events(1)[0].until, 5);
  EXPECT_EQ(bench.messages<wire::Fin>(1).size(), 1u);
  bench.step(FromClient{1, wire::Credit{5, "r1", 0, 5}});
  EXPECT_TRUE(bench.messages<wire::Fin>(1).empty());  // one FIN
}

TEST_F(StreamTest, Stream_WhenTheSocketIsFull_ResendsFromThatIndex) {
  bench.step(FromClient{1, wire::Attach{5, "r1", "", "", {}, 64}});
  bench.step(SendFailed{1, 5, "another", 0, 0});  // of what had this tag before
  bench.tokens(kW1, d, 0, {1, 2, 3});
  ASSERT_EQ(bench.events(1).size(), 1u);
  bench.step(SendFailed{1, 5, "r1", 0, 0});
  bench.tokens(kW1, d, 3, {4}, FinishReason::kStop);
  EXPECT_TRUE(bench.events(1).empty());
  bench.advance_ms(20);
  ASSERT_EQ(bench.events(1).size(), 1u);
  EXPECT_EQ(bench.events(1)[0].start, 0);
  EXPECT_EQ(bench.events(1)[0].until, 4);
  EXPECT_EQ(bench.messages<wire::Fin>(1).size(), 1u);
}

TEST_F(StreamTest, Fin_AfterTokensWereResent_IsSentAgain) {
  bench.step(FromClient{1, wire::Attach{5, "r1", "", "", {}, 64}});
  bench.tokens(kW1, d, 0, {1, 2}, FinishReason::kStop);
  ASSERT_EQ(bench.messages<wire::Fin>(1).size(), 1u);
  bench.step(SendFailed{1, 5, "r1", 0, 0});  // the FIN after them got through
  bench.advance_ms(20);
  ASSERT_EQ(bench.events(1).size(), 1u);
  EXPECT_EQ(bench.events(1)[0].until, 2);
  EXPECT_EQ(bench.messages<wire::Fin>(1).size(), 1u);
}

TEST_F(StreamTest, Fin_WhenItFailsTwice_IsSentAThirdTime) {
  bench.step(FromClient{1, wire::Attach{5, "r1", "", "", {}, 64}});
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  bench.step(SendFailed{1, 5, "r1", -1, 0});
  // No timer fires for so long that the entry of the first FIN is due when the second is sent.
  bench.advance_ms(1'500);
  ASSERT_EQ(bench.messages<wire::Fin>(1).size(), 1u);
  bench.step(SendFailed{1, 5, "r1", -1, 0});
  bench.advance_ms(20);
  EXPECT_EQ(bench.messages<wire::Fin>(1).size(), 1u);
  bench.advance_ms(1'000);
  EXPECT_EQ(bench.machine.streams().size(), 0);
}

TEST_F(StreamTest, FinishedStream_AfterItsTime_IsRemoved) {
  bench.step(FromClient{1, wire::Attach{5, "r1", "", "", {}, 64}});
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.machine.streams().size(), 1);
  bench.advance_ms(1'000);
  EXPECT_EQ(bench.machine.streams().size(), 0);
  EXPECT_EQ(bench.machine.request("r1")->subscribers, 0);
}

TEST(RequestTable, TerminalCache_BeforeTheCommit_ForgetsNothing) {
  // A request that ends and is asked for inside one group is not in the database as ended yet.
  Config config;
  config.requests_ended_in_memory = 1;
  Bench bench(config);
  bench.boot();
  bench.add_model();
  for (int i = 0; i < 5; ++i) bench.submit(bench.submission("r" + std::to_string(i), 0));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(bench.machine.knows_id("r" + std::to_string(i)));
  bench.machine.committed();
  EXPECT_FALSE(bench.machine.knows_id("r0"));
  EXPECT_TRUE(bench.machine.knows_id("r4"));
}

TEST_F(StreamTest, AttachAndCancel_ByAnotherTenant_AreRefusedAsNotFound) {
  bench.step(FromClient{1, wire::Attach{5, "r1", "other", "", {}, 64}});
  ASSERT_EQ(bench.messages<wire::Refused>(1).size(), 1u);
  EXPECT_EQ(bench.messages<wire::Refused>(1)[0].refusal.code, Errc::kNotFound);
  bench.step(FromClient{1, wire::Cancel{6, "r1", "other"}});
  EXPECT_EQ(bench.messages<wire::Refused>(1)[0].refusal.code, Errc::kNotFound);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
}

// ---- queue bounds and placement

TEST(Bounds, Refusal_WhenTheQueueIsFull_HasRetryAfter) {
  Config config;
  config.queue_max_requests = 2;
  Bench bench(config);
  bench.boot();
  bench.add_model();
  bench.submit(bench.submission("r1"));
  bench.submit(bench.submission("r2"));
  bench.submit(bench.submission("r3"));
  ASSERT_EQ(bench.messages<wire::Refused>().size(), 1u);
  const wire::Refusal refusal = bench.messages<wire::Refused>()[0].refusal;
  EXPECT_EQ(refusal.code, Errc::kQueueFull);
  EXPECT_GT(refusal.retry_after_ms, 0);
  EXPECT_EQ(refusal.queue_position, 2);
  EXPECT_GT(refusal.eta_ms, 0);
}

TEST(Forecast, Eta_AfterChoicesHaveEnded_FollowsTheMeanServiceTime) {
  Bench bench;
  bench.boot();
  bench.add_model(1024, 2);
  bench.step(FromWorker{kW1, bench.hello("w1")});
  bench.make_ready(kW1, "class-a", 2);
  const auto forecast = [&](const std::string& id) {
    const wire::RequestInfo info = bench.machine.lifecycle().info(*bench.machine.request(id));
    return std::make_pair(info.queue_position, info.eta_ms);
  };
  for (const char* id : {"a", "b", "c", "d", "e"}) bench.submit(bench.submission(id));
  const auto both = std::make_pair(std::int64_t{0}, std::int64_t{-1});
  EXPECT_EQ(forecast("c"), both);  // nothing has ended yet: nobody knows
  EXPECT_EQ(forecast("a").first, -1);
  // The first one takes 800 ms on the worker.
  wire::Dispatch d;
  d.request_id = "a";
  d.fence = bench.machine.request("a")->choices[0].fence;
  bench.now.mono_us += 800'000;
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(forecast("d"), std::make_pair(std::int64_t{0}, std::int64_t{400}));
  EXPECT_EQ(forecast("e"), std::make_pair(std::int64_t{1}, std::int64_t{800}));
  EXPECT_EQ(bench.machine.lifecycle().info(*bench.machine.request("e")).prompt_tokens,
            std::vector<std::int64_t>{4});
  // The mean follows slowly: one of 2,400 ms moves it by a sixteenth of the difference.
  d.request_id = "b";
  d.fence = bench.machine.request("b")->choices[0].fence;
  bench.now.mono_us += 1'600'000;
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(forecast("e"), std::make_pair(std::int64_t{0}, std::int64_t{450}));
}

TEST(Placement, FailedModel_WhileRequestsWait_FailsItsOwnOnly) {
  Config config;
  config.models_load_tries = 1;
  Bench bench(config);
  bench.boot();
  bench.add_model(1024, 4, 64, true, "bad");
  bench.add_model(1024, 4, 64, true, "good");
  for (const char* model : {"bad", "good"}) {
    wire::Submit submit = bench.submission(std::string("of-") + model);
    submit.model = model;
    bench.submit(submit);
  }
  bench.step(FromWorker{kW1, bench.hello("w1")});
  wire::StateReport report;
  for (const auto& [id, load] : bench.machine.loads().all()) {
    if (load.row.model == "bad") report.model.load_id = id;
  }
  report.model.state = "failed";
  report.model.reason = "internal: no";
  bench.step(FromWorker{kW1, report});
  EXPECT_EQ(bench.state("of-bad"), RequestState::kFailed);
  EXPECT_EQ(bench.state("of-good"), RequestState::kQueued);
}

TEST(Placement, Load_WhileItReports_DoesNotTimeOut) {
  Bench bench;
  bench.boot();
  bench.add_model();
  bench.step(FromWorker{kW1, bench.hello("w1")});
  const wire::Load load = bench.messages<wire::Load>(kW1).at(0);
  const auto state = [&] { return bench.machine.loads().all().begin()->second.row.state; };
  wire::StateReport report;
  report.model.load_id = load.load_id;
  report.model.state = "loading";
  for (int i = 0; i < 4; ++i) {
    bench.advance_ms(bench.machine.config().models_load_timeout_ms * 3 / 4);
    report.model.progress = 0.2 * i;
    bench.step(FromWorker{kW1, report});
    ASSERT_EQ(bench.machine.loads().all().size(), 1u);
    EXPECT_EQ(state(), ModelState::kLoading);
    EXPECT_EQ(bench.machine.registry().models().at("m").failures, 0);
  }
  bench.advance_ms(bench.machine.config().models_load_timeout_ms);
  EXPECT_EQ(bench.machine.registry().models().at("m").failures, 1);
}

/// Another file under the same name is refused while requests or loads use the old one.
struct Registration : testing::Test {
  Bench bench;
  wire::Refusal refusal;
  void add(const std::string& sha) {
    bench.step(IngressUp{Bench::kHelper});
    OpAddModel op;
    op.peer = Bench::kOperator;
    op.tag = 5;
    op.name = "m";
    op.path = "/models/other.gguf";
    bench.step(op);
    InspectedEvent event;
    event.peer = Bench::kHelper;
    event.inspected.job = bench.messages<wire::Inspect>(Bench::kHelper).at(0).job;
    event.inspected.ok = true;
    event.inspected.model_sha = sha;
    event.row.context = 1024;
    event.row.slots = 4;
    event.row.pages = 64;
    event.row.vocab = 1000;
    event.row.weights_bytes = 1000;
    bench.step(event);
    for (const Outgoing& o : bench.sent) {
      if (const auto* result = std::get_if<SendOpResult>(&o)) refusal = result->refusal;
    }
  }
  std::string sha() { return bench.machine.registry().models().at("m").row.sha; }
};

TEST_F(Registration, NewFile_WhileTheOldOneIsLoaded_IsRefused) {
  bench.boot();
  bench.add_model();
  bench.connect_worker(kW1, "w1");
  add("sha-new");
  EXPECT_EQ(refusal.code, Errc::kConflict);
  EXPECT_EQ(sha(), "sha-m");
}

TEST_F(Registration, NewFile_WhenOnlyOtherModelsAreLoaded_IsRegistered) {
  bench.boot();
  bench.add_model(1024, 4, 64, false, "m");
  bench.add_model(1024, 4, 64, true, "other");
  bench.connect_worker(kW1, "w1");
  add("sha-new");
  EXPECT_EQ(sha(), "sha-new");
}

TEST_F(Registration, NewFile_WhileTheQueueIsUnread_IsRefused) {
  bench.boot();
  bench.add_model(1024, 4, 64, false, "m");
  Boot database = bench.database();
  database.unread = 3;
  bench = Bench();
  bench.boot(std::move(database), 2);
  add("sha-new");
  EXPECT_EQ(refusal.code, Errc::kConflict);
  BootQueuePage rest;
  rest.last = true;
  bench.step(rest);
  add("sha-new");
  EXPECT_EQ(sha(), "sha-new");
}

TEST(Placement, Load_WhenReadyOrDraining_NeedsNoReports) {
  Bench bench;
  bench.boot();
  bench.add_model();
  bench.connect_worker(kW1, "w1");
  bench.advance_ms(2 * bench.machine.config().models_load_timeout_ms);
  EXPECT_EQ(bench.machine.loads().all().begin()->second.row.state, ModelState::kReady);
  bench.submit(bench.submission("r1"));
  bench.step(OpModel{Bench::kOperator, 1, "models.unload", "m"});
  bench.advance_ms(2 * bench.machine.config().models_load_timeout_ms);
  EXPECT_EQ(bench.machine.loads().all().begin()->second.row.state, ModelState::kDraining);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
}

TEST(Placement, DrainingLoad_WhenItsWorkerGoes_Ends) {
  Bench bench;
  bench.boot();
  bench.add_model();
  bench.connect_worker(kW1, "w1");
  bench.submit(bench.submission("r1"));
  bench.step(OpModel{Bench::kOperator, 1, "models.unload", "m"});
  EXPECT_EQ(bench.machine.loads().all().begin()->second.row.state, ModelState::kDraining);
  bench.step(PeerGone{kW1});
  EXPECT_TRUE(bench.machine.loads().all().empty());
  EXPECT_EQ(bench.written<PutLoad>().back().row.state, ModelState::kUnloaded);
}

TEST(Placement, Request_WhenItsModelIsNotLoaded_LoadsItOnDemand) {
  Bench bench;
  bench.boot();
  bench.add_model(1024, 4, 64, false);
  bench.step(FromWorker{kW1, bench.hello("w1")});
  EXPECT_TRUE(bench.messages<wire::Load>().empty());
  bench.submit(bench.submission("r1"));
  ASSERT_EQ(bench.messages<wire::Load>(kW1).size(), 1u);
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kPlacing);
  bench.make_ready(kW1);
  EXPECT_EQ(bench.dispatch(kW1).request_id, "r1");
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kReady);
}

TEST(Placement, Load_WhenItFailsRepeatedly_BacksOffThenFailsTheModel) {
  Config config;
  config.models_load_tries = 3;
  Bench bench(config);
  bench.boot();
  bench.add_model();
  bench.submit(bench.submission("r1"));
  bench.step(FromWorker{kW1, bench.hello("w1")});
  for (int i = 0; i < 3; ++i) {
    const auto loads = bench.messages<wire::Load>(kW1);
    ASSERT_EQ(loads.size(), 1u) << i;
    wire::StateReport report;
    report.model.load_id = loads[0].load_id;
    report.model.state = "failed";
    report.model.reason = "memory_exhausted: no";
    bench.step(FromWorker{kW1, report});
    if (i < 2) {
      EXPECT_TRUE(bench.messages<wire::Load>(kW1).empty());
      bench.advance_ms(500 << i);
    }
  }
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kFailed);
  EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
  bench.submit(bench.submission("r2"));
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kModelFailed);
  bench.step(OpModel{Bench::kOperator, 1, "models.load", "m"});  // an operator may try again
  EXPECT_EQ(bench.messages<wire::Load>(kW1).size(), 1u);
}

TEST(Placement, Load_WhenTheFileIsInvalid_IsNotRetried) {
  Bench bench;
  bench.boot();
  bench.add_model();
  bench.step(FromWorker{kW1, bench.hello("w1")});
  wire::StateReport report;
  report.model.load_id = bench.messages<wire::Load>(kW1).at(0).load_id;
  report.model.state = "failed";
  report.model.reason = "file_invalid: no";
  bench.step(FromWorker{kW1, report});
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kFailed);
}

// Kills from outside say nothing about the model, but nothing is tried without end.
TEST(Placement, Load_WhenItsWorkerIsLost_UsesUpATry) {
  for (const std::int32_t signal : {9, 11}) {
    SCOPED_TRACE(signal);
    Config config;
    config.models_load_tries = 3;
    Bench bench(config);
    bench.boot();
    bench.add_model();
    bench.submit(bench.submission("r1"));
    for (int i = 0; i < 6; ++i) {
      const PeerId peer = kW1 + static_cast<PeerId>(100 + i);
      wire::Hello hello = bench.hello("w1");
      hello.incarnation += std::to_string(i);
      hello.pid = 5'000 + i;
      bench.step(FromWorker{peer, hello});
      bench.advance_ms(40'000);
      if (bench.machine.registry().models().at("m").row.state == ModelState::kFailed) break;
      bench.step(PeerGone{peer});
      bench.step(WorkerExit{hello.pid, 0, signal, false});
    }
    EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kFailed);
    EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
  }
}

TEST(Placement, SecondModel_WhenMemoryIsForOne_WaitsForTheEvictionOfTheIdleOne) {
  Config config;
  config.models_dwell_ms = 0;
  Bench bench(config);
  bench.boot();
  bench.add_model(1024, 4, 64, true, "m");  // 1000 + 64000 + 100 bytes; least 17100
  wire::Hello hello = bench.hello("w1");
  hello.memory.total = 72'400;  // 90 % are 65160
  bench.step(FromWorker{kW1, hello});
  bench.make_ready(kW1);
  bench.add_model(1024, 4, 64, true, "other");
  // No room next to "m", which is idle: it is asked to go first.
  EXPECT_TRUE(bench.messages<wire::Load>(kW1).empty());
  bench.unloaded(kW1);
  ASSERT_EQ(bench.messages<wire::Load>(kW1).size(), 1u);
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kUnloaded);
  bench.make_ready(kW1);
  bench.submit(bench.submission("r1"));  // wants "m" back; "other" is idle now
  EXPECT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u);
}

TEST(Placement, Model_WhenItFitsNoDevice_IsRefusedWithItsNumbers) {
  Bench bench;
  bench.boot();
  bench.add_model();
  wire::Hello hello = bench.hello("w1");
  hello.memory.total = 10'000;
  bench.step(FromWorker{kW1, hello});
  const ModelRow& row = bench.machine.registry().models().at("m").row;
  EXPECT_EQ(row.state, ModelState::kPlacing);  // another device may still connect
  bench.submit(bench.submission("r1"));
  hello = bench.hello("w2");
  hello.memory.total = 12'000;
  bench.step(FromWorker{kW2, hello});
  bench.advance_ms(bench.machine.config().models_fleet_wait_ms);
  EXPECT_EQ(row.state, ModelState::kFailed);
  EXPECT_EQ(
      row.reason,
      "placement_unsupported: no connected device can hold it: w2 (cpu-w2) needs 17100 bytes, "
      "may give 10800, largest context 576; w1 (cpu-w1) needs 17100 bytes, may give 9000, "
      "largest context 448");
  EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
  bench.submit(bench.submission("r2"));
  const wire::Refusal refusal = bench.messages<wire::Refused>().at(0).refusal;
  EXPECT_EQ(refusal.code, Errc::kPlacementUnsupported);
  EXPECT_EQ(refusal.needed, 17'100);
  EXPECT_EQ(refusal.free, 10'800);
  EXPECT_EQ(refusal.largest, 576);
}

TEST(Placement, WaitingModel_WhenALargerDeviceComesInTime_IsLoadedThere) {
  Bench bench;
  bench.boot();
  bench.add_model();
  wire::Hello hello = bench.hello("w1");
  hello.memory.total = 10'000;
  bench.step(FromWorker{kW1, hello});
  bench.advance_ms(bench.machine.config().models_fleet_wait_ms - 1);
  bench.step(FromWorker{kW2, bench.hello("w2")});
  EXPECT_EQ(bench.messages<wire::Load>(kW2).size(), 1u);
  bench.advance_ms(10);
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kPlacing);
}

TEST(Placement, Replica_WhenSeveralDevicesFit_GoesToTheMostFreeMemoryAndSaysWhy) {
  Config config;
  config.models_replicas = 1;
  Bench bench(config);
  bench.boot();
  // An accelerator that is too small, a large and a small processor, one that is drained.
  const auto connect = [&](PeerId peer, const std::string& key, const std::string& device,
                           std::int64_t total) {
    wire::Hello hello = bench.hello(key);
    hello.device = device;
    hello.threads = 8;
    hello.memory.total = hello.memory.free = total;
    bench.step(FromWorker{peer, hello});
  };
  connect(kW1, "gpu", "opencl:0", 10'000);
  connect(kW2, "small", "cpu", 80'000);
  connect(kW2 + 1, "large", "cpu1", 200'000);
  connect(kW2 + 2, "drained", "cpu2", 300'000);
  bench.step(OpWorker{Bench::kOperator, 1, "drained", true});
  bench.add_model();
  ASSERT_EQ(bench.messages<wire::Load>(kW2 + 1).size(), 1u);
  EXPECT_EQ(bench.messages<wire::Load>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Load>()[0].threads, 1);
  const auto& devices = bench.machine.registry().models().at("m").devices;
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[0].worker_key, "large");
  EXPECT_EQ(devices[0].why, "needs 17100 bytes, free 180000");
  EXPECT_EQ(devices[1].worker_key, "small");
  EXPECT_EQ(devices[2].why, "needs 17100 bytes, may give 9000, largest context 448");
  EXPECT_EQ(devices[2].worker_key, "gpu");
  EXPECT_EQ(devices[3].why, "draining");
  // An accelerator with room goes before any processor.
  connect(kW2 + 3, "gpu2", "opencl:1", 100'000);
  bench.add_model(1024, 4, 64, true, "n");
  EXPECT_EQ(bench.messages<wire::Load>(kW2 + 3).size(), 1u);
}

TEST(Placement, Eviction_WhenSeveralDevicesCould_IsOnOneOnly) {
  Config config;
  config.models_dwell_ms = 1000;
  config.models_replicas = 1;
  Bench bench(config);
  bench.boot();
  bench.add_model(1024, 4, 64, true, "a");
  bench.add_model(1024, 4, 64, true, "b");
  for (const PeerId peer : {kW1, kW2}) {
    wire::Hello hello = bench.hello("w" + std::to_string(peer));
    hello.memory.total = hello.memory.free = 72'400;
    bench.step(FromWorker{peer, hello});
    bench.make_ready(peer);
  }
  bench.add_model(1024, 4, 64, true, "c");
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  bench.advance_ms(1000);
  EXPECT_EQ(bench.messages<wire::Unload>().size(), 1u);
  bench.step(Timer{});
  bench.submit(bench.submission("r1"));
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
}

TEST(Placement, PausedWorker_WhenItReconnects_RetainsItsWeights) {
  Bench bench;
  bench.boot();
  bench.add_model();
  bench.step(FromWorker{kW1, bench.hello("w1")});
  const std::string load_id = bench.messages<wire::Load>(kW1)[0].load_id;
  bench.make_ready(kW1);
  bench.step(PeerGone{kW1});
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kPlacing);
  wire::Hello hello = bench.hello("w1");
  wire::LoadedModel model;
  model.load_id = load_id;
  model.model_sha = "sha-m";
  model.state = "ready";
  model.slots = 4;
  model.pages_total = 64;
  hello.models = {model};
  bench.step(FromWorker{kW2, hello});
  EXPECT_TRUE(bench.messages<wire::Load>().empty());
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  EXPECT_EQ(bench.machine.registry().models().at("m").row.state, ModelState::kReady);
}

TEST(Placement, Worker_WhenItsSlotsAreFull_GetsNoMore) {
  Bench bench;
  bench.boot();
  bench.add_model();
  bench.connect_worker(kW1, "w1");
  for (int i = 0; i < 6; ++i) bench.submit(bench.submission("r" + std::to_string(i)));
  EXPECT_EQ(bench.machine.lifecycle().running_choices(), 4);
  EXPECT_EQ(bench.machine.lifecycle().queued_choices(), 2);
  bench.step(OpPause{Bench::kOperator, 1, true});
  bench.step(FromClient{1, wire::Cancel{1, "r0", ""}});
  EXPECT_TRUE(bench.dispatches().empty());
  bench.step(OpPause{Bench::kOperator, 1, false});
  EXPECT_EQ(bench.dispatch().request_id, "r4");
}

}  // namespace
}  // namespace holdfast::core::parts_test
