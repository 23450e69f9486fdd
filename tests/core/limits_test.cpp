// Goal: every bound holds where work is let in and where it is given out: what is over a bound of
// one request, of all, of a tenant or of a model is refused with its type and numbers and never
// runs; what may only run later waits, and holds up nobody whom the bound does not concern.
// Method: events by hand for each knob, then random loads on three models and four workers under
// random bounds, whose counts are taken anew from the dispatches after each step.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/core/bench_machine.h"

namespace holdfast::core::limits_test {
namespace {

constexpr PeerId kFirstWorker = 101;

struct Over {
  const char* knob;  // NAME=VALUE
  Errc code;
  std::int64_t needed, largest;
  std::function<void(wire::Submit&)> change;
};

void no_change(wire::Submit&) {}

/// Submissions of tenant "t" to model "m" of 4 prompt tokens (16 bytes) and 8 more, that are over.
std::vector<Over> over_a_bound_of_one() {
  const auto prompt = [](std::size_t tokens) {
    return [tokens](wire::Submit& s) { s.prompts[0].ids = std::vector<TokenId>(tokens, 7); };
  };
  const auto output = [](std::int64_t tokens) {
    return [tokens](wire::Submit& s) { s.max_tokens = tokens; };
  };
  return {
      {"request.max_prompt_tokens=3", Errc::kContextExceeded, 4, 3, no_change},
      {"tenant.t.max_prompt_tokens=9", Errc::kContextExceeded, 10, 9, prompt(10)},
      {"tenant.*.max_prompt_tokens=9", Errc::kContextExceeded, 10, 9, prompt(10)},
      {"model.m.max_prompt_tokens=99", Errc::kContextExceeded, 100, 99, prompt(100)},
      {"request.max_output_tokens=7", Errc::kContextExceeded, 8, 7, no_change},
      {"tenant.t.max_output_tokens=1", Errc::kContextExceeded, 2, 1, output(2)},
      {"model.m.max_output_tokens=100", Errc::kContextExceeded, 101, 100, output(101)},
      {"queue.max_pages=1", Errc::kContextExceeded, 2, 1, output(61)},
      {"tenant.t.max_pages=2", Errc::kContextExceeded, 3, 2, prompt(128)},
      {"model.m.max_pages=1", Errc::kContextExceeded, 2, 1, output(100)},
      {"request.max_bytes=15", Errc::kInvalidRequest, 16, 15, no_change},
      {"request.max_score_bytes=79", Errc::kInvalidRequest, 80, 79,
       [](wire::Submit& s) { s.sampling.prompt_logprobs = 1; }},
      {"request.max_meta_bytes=1", Errc::kInvalidRequest, 2, 1,
       [](wire::Submit& s) { s.meta = "ab"; }},
      {"request.max_prompts=1", Errc::kInvalidRequest, 2, 1,
       [](wire::Submit& s) { s.prompts.push_back(s.prompts[0]); }},
      {"request.max_choices=5", Errc::kInvalidRequest, 6, 5, [](wire::Submit& s) { s.n = 6; }},
      {"request.max_choices=5", Errc::kInvalidRequest, 6, 5,
       [](wire::Submit& s) {
         s.n = 2;
         s.prompts.resize(3, s.prompts[0]);
       }},
  };
}

/// Submissions that are over a bound when another one waits already.
std::vector<Over> over_a_bound_with_one_queued() {
  return {
      {"queue.max_requests=1", Errc::kQueueFull, 2, 1, no_change},
      {"queue.max_waiting=1", Errc::kQueueFull, 2, 1, no_change},
      {"queue.max_tenant_requests=1", Errc::kQueueFull, 2, 1, no_change},
      {"tenant.t.max_requests=1", Errc::kQueueFull, 2, 1, no_change},
      {"tenant.*.max_waiting=1", Errc::kQueueFull, 2, 1, no_change},
      {"tenant.t.max_bytes=31", Errc::kQueueFull, 32, 31, no_change},
      {"model.m.max_requests=1", Errc::kQueueFull, 2, 1, no_change},
      {"model.m.max_waiting=1", Errc::kQueueFull, 2, 1, no_change},
      {"model.*.max_bytes=31", Errc::kQueueFull, 32, 31, no_change},
  };
}

struct LimitsTest : testing::Test {
  Bench bench;
  int made = 0;

  void SetUp() override {
    bench.boot();
    bench.add_model();
  }
  void set(const std::string& assignment) {
    const std::size_t equals = assignment.find('=');
    bench.step(OpConfig{Bench::kOperator,
                        1,
                        "config.set",
                        "ann",
                        {{assignment.substr(0, equals), assignment.substr(equals + 1)}},
                        {}});
    const bool done = std::any_of(bench.sent.begin(), bench.sent.end(), [](const Outgoing& o) {
      const auto* result = std::get_if<SendOpResult>(&o);
      return result != nullptr && result->ok;
    });
    ASSERT_TRUE(done) << assignment;
  }
  void unset(const std::string& name) {
    bench.step(OpConfig{Bench::kOperator, 1, "config.unset", "ann", {{name, std::nullopt}}, {}});
  }
  bool submit(const std::function<void(wire::Submit&)>& change = no_change) {
    wire::Submit s = bench.submission("r" + std::to_string(++made));
    s.tenant = "t";
    change(s);
    bench.submit(std::move(s));
    return bench.messages<wire::Accepted>().size() == 1;
  }
  void expect_refused(const Over& over) {
    const std::size_t rows = bench.written<InsertRequest>().size();
    EXPECT_FALSE(submit(over.change)) << over.knob;
    const auto refused = bench.messages<wire::Refused>();
    ASSERT_EQ(refused.size(), 1u) << over.knob;
    const wire::Refusal& r = refused[0].refusal;
    EXPECT_EQ(r.code, over.code) << over.knob << ": " << r.message;
    EXPECT_EQ(r.needed, over.needed) << over.knob << ": " << r.message;
    EXPECT_EQ(r.largest, over.largest) << over.knob;
    std::string name(over.knob, std::string(over.knob).find('='));
    if (name.find('*') != std::string::npos) {
      name.replace(name.find('*'), 1, name.starts_with("tenant") ? "t" : "m");
    }
    if (name == "queue.max_tenant_requests") name = "tenant.t.max_requests";
    EXPECT_NE(r.message.find(name + " is " + std::to_string(over.largest)), std::string::npos)
        << r.message;
    EXPECT_EQ(bench.written<InsertRequest>().size(), rows);
  }
};

TEST_F(LimitsTest, RequestLimit_WhenExceeded_RefusesWithItsNumbers) {
  for (const Over& over : over_a_bound_of_one()) {
    const std::string knob = over.knob;
    set(knob);
    expect_refused(over);
    unset(knob.substr(0, knob.find('=')));
    EXPECT_TRUE(submit(over.change)) << over.knob;
  }
}

TEST_F(LimitsTest, QueueLimit_WhenExceededByOne_RefusesWithItsNumbers) {
  ASSERT_TRUE(submit());
  for (const Over& over : over_a_bound_with_one_queued()) {
    const std::string knob = over.knob;
    set(knob);
    expect_refused(over);
    EXPECT_GE(bench.messages<wire::Refused>()[0].refusal.retry_after_ms, 100);
    EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.queue_position, 1);
    unset(knob.substr(0, knob.find('=')));
  }
  // The bounds of one tenant or model are nobody else's.
  set("tenant.other.max_requests=1");
  set("model.other.max_waiting=1");
  set("queue.max_bytes=1048576");
  EXPECT_TRUE(submit());
}

TEST_F(LimitsTest, Bound_WhenARequestBeginsOrEnds_AdmitsTheNext) {
  set("tenant.t.max_waiting=1");
  ASSERT_TRUE(submit());
  EXPECT_FALSE(submit());
  bench.connect_worker(kFirstWorker, "w1");
  const wire::Dispatch d = bench.dispatch();
  set("tenant.t.max_requests=2");
  EXPECT_TRUE(submit());  // the first one does not wait any more
  EXPECT_FALSE(submit());
  bench.tokens(kFirstWorker, d, 0, {1}, FinishReason::kStop);
  EXPECT_TRUE(submit());
}

TEST_F(LimitsTest, MaxTokens_WhenUnset_IsWhatTheBoundsLeave) {
  const auto resolved = [&] {
    EXPECT_TRUE(submit([](wire::Submit& s) { s.max_tokens.reset(); }));
    return bench.written<InsertRequest>().back().row.max_tokens;
  };
  EXPECT_EQ(resolved(), 1020);
  set("tenant.t.max_pages=2");
  EXPECT_EQ(resolved(), 124);
  set("model.m.max_output_tokens=50");
  EXPECT_EQ(resolved(), 50);
  set("request.max_output_tokens=20");
  EXPECT_EQ(resolved(), 20);
}

TEST_F(LimitsTest, TenantAtItsLimit_WhenOthersWait_DoesNotBlockThem) {
  set("tenant.t.max_running=1");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit());
  ASSERT_TRUE(submit([](wire::Submit& s) { s.tenant = "u"; }));
  bench.connect_worker(kFirstWorker, "w1");
  const auto first = bench.dispatches();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].request_id, "r1");
  EXPECT_EQ(first[1].request_id, "r4");
  bench.tokens(kFirstWorker, first[1], 0, {1}, FinishReason::kStop);
  EXPECT_TRUE(bench.dispatches().empty());
  bench.tokens(kFirstWorker, first[0], 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.dispatch().request_id, "r2");
  set("tenant.t.max_running=2");
  EXPECT_EQ(bench.dispatch().request_id, "r3");
}

TEST_F(LimitsTest, MaxRunning_WhenSetForModelWorkerOrAll_LimitsDispatches) {
  for (const char* knob : {"model.m.max_running=3", "worker.w1.max_running=3",
                           "queue.max_running=3", "worker.*.max_running=3"}) {
    Bench other;
    std::swap(bench, other);
    SetUp();
    set(knob);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(submit());
    bench.connect_worker(kFirstWorker, "w1");
    const auto first = bench.dispatches();
    ASSERT_EQ(first.size(), 3u) << knob;
    bench.tokens(kFirstWorker, first[1], 0, {1}, FinishReason::kStop);
    EXPECT_EQ(bench.dispatches().size(), 1u) << knob;
  }
}

TEST_F(LimitsTest, MaxPages_WhenALargeRequestWaits_DoesNotStarveIt) {
  bench.add_model(1024, 4, 64, true, "n");
  for (const char* knob : {"queue.max_pages=4", "model.m.max_pages=4", "worker.w1.max_pages=4"}) {
    Bench other;
    std::swap(bench, other);
    SetUp();
    set(knob);
    const auto with = [](std::int64_t tokens) {
      return [tokens](wire::Submit& s) { s.max_tokens = tokens; };
    };
    ASSERT_TRUE(submit(with(60)));   // 1 page
    ASSERT_TRUE(submit(with(200)));  // 4 pages
    ASSERT_TRUE(submit(with(60)));
    bench.connect_worker(kFirstWorker, "w1");
    const wire::Dispatch small = bench.dispatch();
    EXPECT_EQ(small.request_id, "r" + std::to_string(made - 2)) << knob;
    bench.tokens(kFirstWorker, small, 0, {1}, FinishReason::kStop);
    const wire::Dispatch large = bench.dispatch();
    EXPECT_EQ(large.request_id, "r" + std::to_string(made - 1)) << knob;
    bench.tokens(kFirstWorker, large, 0, {1}, FinishReason::kStop);
    EXPECT_EQ(bench.dispatch().request_id, "r" + std::to_string(made)) << knob;
  }
}

TEST_F(LimitsTest, LargeRequest_WhenAnotherModelHasSmallOnes_IsNotStarved) {
  bench.add_model(1024, 4, 64, true, "n");
  set("queue.max_pages=4");
  const auto ask = [&](const char* model, std::int64_t tokens) {
    return submit([&](wire::Submit& s) {
      s.model = model;
      s.max_tokens = tokens;
    });
  };
  bench.connect_worker(kFirstWorker, "w1");
  ASSERT_TRUE(ask("m", 100));  // 2 pages
  const wire::Dispatch first = bench.dispatch();
  ASSERT_TRUE(ask("m", 250));  // 4 pages
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ask("n", 60));
    EXPECT_TRUE(bench.dispatches().empty());
  }
  bench.tokens(kFirstWorker, first, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.dispatch().request_id, "r2");
}

TEST_F(LimitsTest, AcceptedRequest_WhenALimitIsSetBelowIt_RunsAlone) {
  ASSERT_TRUE(submit([](wire::Submit& s) { s.max_tokens = 500; }));
  ASSERT_TRUE(submit());
  set("tenant.t.max_pages=1");
  bench.connect_worker(kFirstWorker, "w1");
  const wire::Dispatch large = bench.dispatch();
  EXPECT_EQ(large.request_id, "r1");
  bench.tokens(kFirstWorker, large, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.dispatch().request_id, "r2");
}

TEST_F(LimitsTest, MaxRunning_AfterARestart_CountsAdoptableChoices) {
  set("tenant.t.max_running=1");
  bench.connect_worker(kFirstWorker, "w1");
  ASSERT_TRUE(submit());
  ASSERT_EQ(bench.dispatches().size(), 1u);
  ASSERT_TRUE(submit());
  Bench again;
  again.boot(bench.database(), 2);
  EXPECT_EQ(again.machine.lifecycle().requests().usage().tenant("t"),
            (UsageCounters{2, 1, 32, 1, 1}));
  again.connect_worker(kFirstWorker + 1, "w2");
  EXPECT_TRUE(again.dispatches().empty());
  again.advance_ms(again.machine.config().workers_adoption_window_ms);
  EXPECT_EQ(again.dispatch().request_id, "r1");
}

// ---- many at once

struct RandomLoad {
  std::mt19937 random;
  Bench bench;
  struct Running {
    wire::Dispatch d;
    PeerId worker;
    std::int64_t pages;
  };
  std::map<std::string, wire::Submit> accepted;
  std::map<std::string, Running> running;  // by request/choice
  std::int64_t refused = 0, ended = 0, choices = 0, waited = 0;

  explicit RandomLoad(unsigned seed) : random(seed) {}
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  void set(const std::string& name, std::int64_t value) {
    bench.step(
        OpConfig{Bench::kOperator, 1, "config.set", "ann", {{name, std::to_string(value)}}, {}});
  }
  void begin() {
    bench.boot();
    for (const char* name : {"a", "b", "c"}) bench.add_model(1024, 4, 256, true, name);
    set("models.loads_at_once", 1000);
    const char* bounded[] = {"queue", "tenant.t0", "tenant.*", "model.a", "model.*"};
    for (const char* of : bounded) {
      const std::string who = of;
      if (draw(0, 1) == 0) set(who + ".max_running", draw(1, 8));
      if (draw(0, 1) == 0) set(who + ".max_pages", draw(4, 20));
      if (draw(0, 2) == 0) set(who + ".max_waiting", draw(1, 20));
      if (draw(0, 2) == 0) set(who + ".max_requests", draw(3, 30));
      if (who == "queue") continue;
      if (draw(0, 2) == 0) set(who + ".max_prompt_tokens", draw(5, 100));
      if (draw(0, 2) == 0) set(who + ".max_output_tokens", draw(5, 300));
    }
    if (draw(0, 1) == 0) set("worker.*.max_running", draw(1, 6));
    if (draw(0, 1) == 0) set("worker.w2.max_pages", draw(4, 12));
    for (PeerId w = 0; w < 4; ++w) {
      bench.step(FromWorker{kFirstWorker + w, bench.hello("w" + std::to_string(w))});
      bench.make_ready(kFirstWorker + w, "class-a", 4, 256);
      take_dispatches();
    }
  }
  void submit(int number) {
    wire::Submit s = bench.submission("r" + std::to_string(number), draw(1, 400), draw(1, 150));
    s.tenant = "t" + std::to_string(draw(0, 3));
    s.model = std::string(1, static_cast<char>('a' + draw(0, 2)));
    s.n = static_cast<std::int32_t>(draw(1, 3));
    bench.submit(s);
    if (!bench.messages<wire::Accepted>().empty()) {
      accepted[s.request_id] = s;
      choices += s.n;
    } else {
      const auto all = bench.messages<wire::Refused>();
      ASSERT_EQ(all.size(), 1u);
      EXPECT_GT(all[0].refusal.needed, all[0].refusal.largest) << all[0].refusal.message;
      ++refused;
    }
    take_dispatches();
  }
  void take_dispatches() {
    for (PeerId w = kFirstWorker; w < kFirstWorker + 4; ++w) {
      for (const wire::CancelWork& c : bench.messages<wire::CancelWork>(w)) {
        running.erase(c.request_id + "/" + std::to_string(c.choice));  // it gave way
      }
    }
    for (PeerId w = kFirstWorker; w < kFirstWorker + 4; ++w) {
      for (const wire::Dispatch& d : bench.dispatches(w)) {
        ASSERT_EQ(accepted.count(d.request_id), 1u) << "what was refused runs";
        const wire::Submit& s = accepted[d.request_id];
        const auto tokens = static_cast<std::int64_t>(s.prompts[0].ids->size()) + d.max_tokens;
        running[d.request_id + "/" + std::to_string(d.choice)] = {d, w, (tokens + 63) / 64};
      }
    }
    check();
  }
  void end_one() {
    if (running.empty()) return;
    auto it = running.begin();
    std::advance(it, draw(0, static_cast<std::int64_t>(running.size()) - 1));
    const Running r = it->second;
    running.erase(it);
    ++ended;
    bench.tokens(r.worker, r.d, 0, {1}, FinishReason::kStop);
    take_dispatches();
  }
  static void expect_within(const std::string& who, std::int64_t have, std::int64_t pages,
                            std::int64_t max_running, std::int64_t max_pages) {
    if (max_running > 0) {
      EXPECT_LE(have, max_running) << who;
    }
    if (max_pages > 0 && (have > 1 || !who.starts_with("worker"))) {  // alone it runs anywhere
      EXPECT_LE(pages, max_pages) << who;
    }
  }
  /// Compares what runs, by the test's own count, with every bound.
  void check() {
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> tenants, models, workers;
    std::int64_t pages = 0;
    const auto add = [](auto& to, std::int64_t p) {
      ++to.first;
      to.second += p;
    };
    for (const auto& [id, r] : running) {
      const wire::Submit& s = accepted[r.d.request_id];
      add(tenants[s.tenant], r.pages);
      add(models[s.model], r.pages);
      add(workers["w" + std::to_string(r.worker - kFirstWorker)], r.pages);
      pages += r.pages;
    }
    const Config& c = bench.machine.config();
    expect_within("all", static_cast<std::int64_t>(running.size()), pages, c.queue_max_running,
                  c.queue_max_pages);
    const auto each = [](const auto& counts, const auto& of, const char* kind) {
      for (const auto& [name, count] : counts) {
        const SubjectConfig limits = of(name);
        expect_within(kind + name, count.first, count.second, limits.max_running, limits.max_pages);
      }
    };
    each(
        tenants, [&](const auto& n) { return c.tenant(n); }, "tenant ");
    each(
        models, [&](const auto& n) { return c.model(n); }, "model ");
    each(
        workers, [&](const auto& n) { return c.worker(n); }, "worker ");
    EXPECT_EQ(bench.machine.lifecycle().running_choices(),
              static_cast<std::int64_t>(running.size()));
    waited += bench.machine.lifecycle().queued_choices() > 0 && running.size() < 48;
  }
};

TEST(Limits, Limits_WithRandomLoads_HoldAndAllAcceptedEnds) {
  std::int64_t refused = 0, waited = 0, ended = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomLoad load(seed);
    load.begin();
    for (int i = 0; i < 150; ++i) {
      load.submit(i);
      while (load.draw(0, 2) == 0) load.end_one();
    }
    while (!load.running.empty()) load.end_one();
    EXPECT_EQ(load.ended, load.choices) << "something accepted never ran";
    EXPECT_EQ(load.bench.machine.lifecycle().requests().usage().all(), UsageCounters());
    refused += load.refused;
    waited += load.waited;
    ended += load.ended;
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(waited, 1000);
  EXPECT_GT(ended, 1000);
}

}  // namespace
}  // namespace holdfast::core::limits_test
