// Goal: no tenant holds up another by how much it asks for: whatever one of them has waiting and
// running, another one's request runs as soon as its share says, in all queues of a model.
// Method: a machine with a few slots, events by hand, and what is dispatched and cancelled; then
// random steps with the rule itself looked at after each.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "control/core/queue.h"
#include "tests/core/bench_machine.h"

namespace holdfast::core::fairness_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr std::int32_t kSlots = 4;

/// A machine with one model on one worker of four slots.
struct Shared : Bench {
  explicit Shared(Config config = {}, std::int32_t slots = kSlots) : Bench(config) {
    boot();
    add_model(4096, slots, 4096);
    step(FromWorker{kW1, hello("w1")});
    make_ready(kW1, "class-a", slots, 4096);
  }
  /// Returns what was sent to the worker.
  std::vector<wire::Dispatch> ask(const std::string& id, const std::string& tenant,
                                  std::int32_t n = 1, std::int64_t tokens = 20,
                                  PriorityClass priority = PriorityClass::kNormal) {
    wire::Submit s = submission(id, tokens);
    s.tenant = tenant;
    s.n = n;
    s.priority = priority;
    submit(std::move(s));
    EXPECT_EQ(messages<wire::Accepted>().size(), 1u) << id;
    return dispatches();
  }
  std::int64_t running(const std::string& tenant) {
    return machine.lifecycle().requests().usage().tenant(tenant).running;
  }
  /// Commits a first token of each: their requests are bound to the worker's class.
  void begin(const std::vector<wire::Dispatch>& sent) {
    for (const wire::Dispatch& d : sent) tokens(kW1, d, 0, {1});
  }
};

TEST(Fairness, ManyChoices_WhenAnotherTenantComes_GiveWayAtOnce) {
  Shared bench;
  const auto first = bench.ask("a", "a", 64, 200);
  ASSERT_EQ(first.size(), 4u);
  bench.begin(first);  // 60 wait in the queue of their class now, older than what comes
  const auto next = bench.ask("b", "b", 1, 2);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].request_id, "b");
  const auto cancelled = bench.messages<wire::CancelWork>(kW1);
  ASSERT_EQ(cancelled.size(), 1u);
  EXPECT_EQ(cancelled[0].request_id, "a");
  EXPECT_EQ(cancelled[0].choice, 3) << "the youngest";
  EXPECT_EQ(bench.running("a"), 3);
  // Its slot is free again: what gave way goes on where it was, before the choices that wait.
  bench.tokens(kW1, next[0], 0, {7}, FinishReason::kStop);
  const wire::Dispatch again = bench.dispatch();
  EXPECT_EQ(again.choice, 3);
  EXPECT_EQ(again.committed_ids, (std::vector<TokenId>{1}));
}

TEST(Fairness, ManyRequests_WhenAnotherTenantComes_GiveWayAtOnce) {
  Shared bench;
  for (int i = 0; i < 200; ++i) bench.begin(bench.ask("a" + std::to_string(i), "a", 1, 200));
  const auto next = bench.ask("b", "b", 1, 2);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].request_id, "b");
  EXPECT_EQ(bench.machine.lifecycle().info(*bench.machine.request("b")).state,
            RequestState::kRunning);
  EXPECT_EQ(bench.running("a"), 3);
}

TEST(Fairness, NewTenant_WithoutPreemption_GetsTheNextFreeSlot) {
  Config config;
  config.queue_preempt = 0;
  Shared bench(config);
  const auto first = bench.ask("a", "a", 64, 200);
  bench.begin(first);
  EXPECT_TRUE(bench.ask("b", "b", 1, 2).empty());
  EXPECT_EQ(bench.machine.lifecycle().info(*bench.machine.request("b")).queue_position, 0);
  bench.tokens(kW1, first[0], 1, {2}, FinishReason::kStop);
  EXPECT_EQ(bench.dispatch().request_id, "b");
}

TEST(Fairness, LostWorkersChoices_WhenRequeued_GoFirstInTheirTenantOnly) {
  Config config;
  config.queue_preempt = 0;
  config.workers_reconnect_ms = 0;
  Shared bench(config);
  bench.begin(bench.ask("a", "a", 12, 200));
  bench.ask("b", "b", 4, 2);
  bench.step(PeerGone{kW1});
  bench.advance_ms(100);
  bench.step(FromWorker{kW1 + 1, bench.hello("w1", "i2")});
  bench.make_ready(kW1 + 1, "class-a", kSlots, 4096);
  std::map<std::string, int> sent;
  for (const wire::Dispatch& d : bench.dispatches()) {
    ++sent[d.request_id];
    EXPECT_TRUE(d.request_id != "a" || d.choice < 4) << "what had begun goes before what had not";
  }
  EXPECT_EQ(sent["a"], 2);
  EXPECT_EQ(sent["b"], 2) << "what had begun starves nobody";
}

TEST(Fairness, TenantShares_WithWeights_FollowThem) {
  Config config;
  config.tenants["big"].weight = 3;
  Shared bench(config);
  bench.ask("a", "a", 16, 200);
  EXPECT_EQ(bench.running("a"), 4);
  bench.ask("big", "big", 16, 200);
  EXPECT_EQ(bench.running("a"), 1);
  EXPECT_EQ(bench.running("big"), 3);
  // A third tenant takes from those above their share, down to one choice each.
  bench.ask("c", "c", 16, 200);
  EXPECT_EQ(bench.running("a"), 1);
  EXPECT_EQ(bench.running("big"), 2);
  EXPECT_EQ(bench.running("c"), 1);
  // A share of 4 x 3 / 6 is what it has: the fourth waits for a slot to become free.
  bench.ask("d", "d", 16, 200);
  EXPECT_EQ(bench.running("big"), 2);
  EXPECT_EQ(bench.running("d"), 0);
  bench.ask("e", "e", 16, 200);
  EXPECT_EQ(bench.running("big"), 1);
  EXPECT_EQ(bench.running("d") + bench.running("e"), 1);
  // With more tenants than slots no tenant's only choice gives way.
  bench.ask("f", "f", 16, 200);
  EXPECT_TRUE(bench.messages<wire::CancelWork>().empty());
}

TEST(Fairness, OneTenantAlone_HasAllSlots) {
  Shared bench;
  bench.ask("a", "a", 16, 200);
  EXPECT_EQ(bench.running("a"), 4);
  bench.ask("a2", "a", 1, 2);
  EXPECT_TRUE(bench.messages<wire::CancelWork>().empty()) << "its own work does not give way";
}

TEST(Fairness, HigherPriority_WhenALowerOneWaits_IsNotPreempted) {
  Shared bench;
  bench.ask("a", "a", 16, 200, PriorityClass::kInteractive);
  EXPECT_TRUE(bench.ask("b", "b", 1, 2).empty());
  EXPECT_EQ(bench.running("a"), 4);
  // The other way round it does.
  bench.ask("c", "c", 1, 2, PriorityClass::kInteractive);
  EXPECT_EQ(bench.running("a"), 3);
  EXPECT_EQ(bench.running("c"), 1);
}

TEST(Fairness, KvPages_WhenAnotherTenantComes_AreSharedLikeSlots) {
  Config config;
  Bench bench(config);
  bench.boot();
  bench.add_model(4096, 8, 64);
  bench.step(FromWorker{kW1, bench.hello("w1")});
  bench.make_ready(kW1, "class-a", 8, 64);
  const auto ask = [&](const std::string& id, const std::string& tenant, std::int64_t prompt) {
    wire::Submit s = bench.submission(id, 8, prompt);
    s.tenant = tenant;
    bench.submit(std::move(s));
  };
  for (int i = 0; i < 3; ++i) ask("a" + std::to_string(i), "a", 20 * 64);
  EXPECT_EQ(bench.machine.lifecycle().requests().usage().tenant("a").running, 2)
      << "42 pages, and 21 more do not fit";
  ask("b", "b", 20 * 64);
  EXPECT_EQ(bench.machine.lifecycle().requests().usage().tenant("b").running, 1);
  EXPECT_EQ(bench.machine.lifecycle().requests().usage().tenant("a").running, 1);
}

TEST(Fairness, MaxRunning_WhenReached_IsSharedByTenants) {
  Config config;
  config.queue_max_running = 2;
  Shared bench(config);
  bench.ask("a", "a", 16, 200);
  EXPECT_EQ(bench.running("a"), 2);
  bench.ask("b", "b", 1, 2);
  EXPECT_EQ(bench.running("a"), 1);
  EXPECT_EQ(bench.running("b"), 1);
}

TEST(Fairness, AdoptedChoices_AfterARestart_CountForTheirTenant) {
  Shared bench;
  bench.begin(bench.ask("a", "a", 8, 200));
  Bench next;
  next.now = bench.now;
  next.boot(bench.database(), 2);
  wire::Hello hello = next.hello("w1");
  hello.models = {ready_model(next.machine.loads().all().begin()->first)};
  hello.models[0].pages_total = 4096;
  for (const auto& [id, request] : next.machine.lifecycle().requests().all()) {
    for (const Choice& choice : request.choices) {
      if (choice.phase == ChoicePhase::kAdopting)
        hello.active.push_back({request.row.id, choice.row.choice, choice.fence, 1, 1});
    }
  }
  ASSERT_EQ(hello.active.size(), 4u);
  next.step(FromWorker{kW1, hello});
  EXPECT_EQ(next.machine.core().counters.adopted, 4u);
  wire::Submit s = next.submission("b", 2);
  s.tenant = "b";
  next.submit(std::move(s));
  EXPECT_EQ(next.dispatch().request_id, "b");
  EXPECT_EQ(next.machine.lifecycle().requests().usage().tenant("a").running, 3);
}

/// Random tenants, requests and ends. After each step: nobody waits below its share while another
/// one of its class is above its own; and what each got while all wanted more is alike.
TEST(Fairness, RandomWork_WhenOneIsAboveItsShare_NobodyWaitsBelowIts) {
  std::uint64_t gave_way = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    const auto slots = static_cast<std::int32_t>(2 + random() % 7);
    Shared bench({}, slots);
    std::map<std::pair<std::string, std::int32_t>, wire::Dispatch> on_worker;
    std::map<std::string, std::int64_t> demand;
    const auto look = [&] {
      for (const auto& c : bench.messages<wire::CancelWork>()) {
        on_worker.erase({c.request_id, c.choice});
      }
      for (const auto& d : bench.dispatches()) on_worker[{d.request_id, d.choice}] = d;
      ASSERT_LE(on_worker.size(), static_cast<std::size_t>(slots));
      std::map<std::string, std::int64_t> running, waiting;
      for (const QueueLine& line : bench.machine.lifecycle().queue_lines(bench.now.mono_us)) {
        running[line.tenant] += line.running;
        waiting[line.tenant] += line.waiting;
      }
      const auto tenants = static_cast<std::int64_t>(running.size());
      for (const auto& [low, waits] : waiting) {
        if (waits == 0) continue;
        ASSERT_EQ(on_worker.size(), static_cast<std::size_t>(slots)) << "no slot is left free";
        const bool below = running[low] == 0 || (running[low] + 1) * tenants <= slots;
        for (const auto& [high, runs] : running) {
          ASSERT_FALSE(below && high != low && runs > 1 && runs * tenants > slots)
              << "seed " << seed << ": " << low << " runs " << running[low] << ", " << high
              << " runs " << runs << " of " << slots;
        }
      }
    };
    for (int i = 0; i < 300; ++i) {
      if (random() % 3 == 0 || on_worker.empty()) {
        const std::string tenant = std::string(1, static_cast<char>('a' + random() % 5));
        bench.ask("r" + std::to_string(i), tenant, static_cast<std::int32_t>(1 + random() % 12),
                  static_cast<std::int64_t>(1 + random() % 50));
      } else {
        const auto it =
            std::next(on_worker.begin(), static_cast<std::ptrdiff_t>(random() % on_worker.size()));
        const wire::Dispatch d = it->second;
        on_worker.erase(it);
        bench.tokens(kW1, d, std::ssize(d.committed_ids), {1}, FinishReason::kStop);
      }
      look();
      if (HasFatalFailure()) return;
    }
    gave_way += bench.machine.core().counters.preempted;
  }
  EXPECT_GT(gave_way, 100u);
}

QueueItem item(Seq seq, const std::string& tenant, std::int64_t cost,
               const std::string& numerics = {}) {
  QueueItem one;
  one.ref = {seq, 0};
  one.tenant = tenant;
  one.cost = cost;
  one.numerics_class = numerics;
  return one;
}

TEST(WorkQueue, VirtualTime_WithSeveralNumericsClasses_IsShared) {
  WorkQueue queue;
  for (Seq seq = 1; seq <= 50; ++seq) queue.push(item(seq, "a", 10, "x"));
  for (int i = 0; i < 10; ++i) queue.take(queue.head("x")->ref);
  for (Seq seq = 101; seq <= 150; ++seq) queue.push(item(seq, "b", 10));
  std::map<std::string, int> got;
  for (int i = 0; i < 40; ++i) {
    const QueueItem* head = queue.head("x");
    ++got[head->tenant];
    queue.take(head->ref);
  }
  EXPECT_NEAR(got["a"], 20, 1);
  EXPECT_EQ(queue.head("y")->tenant, "b") << "a worker of another class has b's alone";
}

TEST(WorkQueue, TokenCost_WhenLessIsGenerated_IsRefunded) {
  WorkQueue queue;
  Seq seq = 0;
  std::map<std::string, int> got;
  // "a" asks for a thousand tokens each time and makes ten, as "b" does.
  for (int i = 0; i < 100; ++i) {
    queue.push(item(++seq, "a", 1000));
    queue.push(item(++seq, "b", 10));
  }
  for (int i = 0; i < 100; ++i) {
    const QueueItem taken = *queue.head();
    ++got[taken.tenant];
    queue.take(taken.ref);
    queue.end(taken.ref, taken.cost - 10);
  }
  EXPECT_NEAR(got["a"], 50, 1);
}

TEST(WorkQueue, BlockedTenant_WhenItCanRunAgain_CatchesUpOnlyBriefly) {
  WorkQueue queue;
  queue.push(item(1, "a", 10, "x"));
  for (Seq seq = 2; seq <= 100; ++seq) queue.push(item(seq, "a", 10, "x"));
  for (Seq seq = 101; seq <= 400; ++seq) queue.push(item(seq, "b", 10));
  for (int i = 0; i < 200; ++i) queue.take(queue.head("y")->ref);  // nobody of class x is there
  int in_a_row = 0;
  while (queue.head("x")->tenant == "a") {
    queue.take(queue.head("x")->ref);
    ++in_a_row;
  }
  EXPECT_LE(in_a_row, 10);
}

TEST(WorkQueue, Position_WithRandomItems_IsTheOrderTaken) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    WorkQueue queue;
    std::map<std::string, std::int64_t> cost;
    for (const char* tenant : {"a", "b", "c", "d"}) cost[tenant] = 1 << (random() % 5);
    for (Seq seq = 1; seq <= 120; ++seq) {
      const std::string tenant(1, static_cast<char>('a' + random() % 4));
      QueueItem one = item(seq, tenant, cost[tenant]);
      one.priority = static_cast<PriorityClass>(random() % 3);
      one.resumed = random() % 6 == 0;
      queue.push(one);
      if (seq % 4 == 0) queue.take(queue.head()->ref);
    }
    std::map<Seq, std::int64_t> said;
    for (Seq seq = 1; seq <= 120; ++seq) said[seq] = queue.position({seq, 0});
    for (std::int64_t nth = 0; queue.size() > 0; ++nth) {
      const ChoiceRef ref = queue.head()->ref;
      EXPECT_EQ(said[ref.seq], nth) << "round " << round;
      queue.take(ref);
    }
  }
}

}  // namespace
}  // namespace holdfast::core::fairness_test
