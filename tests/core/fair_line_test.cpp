// Goal: in front of the helpers tenants take turns by what their jobs cost, and a full line makes
// room for a tenant that has few in it.
// Method: the line by itself, then submissions into a machine whose helper takes so much at a time.
#include "control/core/fair_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/core/bench_machine.h"

namespace holdfast::core::fair_line_test {
namespace {

TEST(FairLine, Pop_WithSeveralTenants_TakesTurnsByCost) {
  FairLine line;
  FairLine::Id id = 0;
  std::map<FairLine::Id, std::string> of;
  for (int i = 0; i < 40; ++i) {
    line.push("a", ++id, 30);
    of[id] = "a";
  }
  EXPECT_EQ(line.pop(), 1u);
  for (int i = 0; i < 40; ++i) {
    line.push("b", ++id, 10);
    of[id] = "b";
  }
  std::map<std::string, int> got;
  for (int i = 0; i < 40; ++i) ++got[of[*line.pop()]];
  EXPECT_NEAR(got["b"], 30, 1);
  EXPECT_NEAR(got["a"], 10, 1);
  EXPECT_EQ(line.size(), 39u);
  EXPECT_EQ(line.newest_of_longest(5), 40u);
  EXPECT_FALSE(line.newest_of_longest(39).has_value());
  EXPECT_TRUE(line.remove(40));
  EXPECT_FALSE(line.remove(40));
  while (line.pop()) continue;
  EXPECT_EQ(line.size(), 0u);
}

TEST(FairLine, Pop_WhenATenantReturns_GrantsNoSavedUpTurns) {
  FairLine line;
  for (FairLine::Id id = 1; id <= 10; ++id) line.push("a", id, 10);
  for (int i = 0; i < 10; ++i) line.pop();
  line.push("a", 20, 10);
  line.push("b", 21, 10);
  line.push("b", 22, 10);
  EXPECT_EQ(line.pop(), 21u) << "a was served last";
  line.push("c", 23, 10);
  std::map<FairLine::Id, int> when;
  for (int i = 0; i < 3; ++i) when[*line.pop()] = i;
  EXPECT_EQ(when[22], 2) << "each has a turn before b has its second";
}

TEST(FairLine, Job_WhenItCostsTooMuch_StaysQueued) {
  FairLine line;
  line.push("a", 1, 100);
  line.push("a", 2, 10);
  line.push("b", 3, 100);
  EXPECT_FALSE(line.pop_job(9).has_value());
  EXPECT_EQ(line.pop_job(10)->id, 2u);
  EXPECT_FALSE(line.pop_job(10).has_value());
  EXPECT_EQ(line.size(), 2u);
  EXPECT_EQ(line.pop(), 3u) << "b had nothing yet";
  EXPECT_EQ(line.pop(), 1u);
}

TEST(HelperPool, LargeJobs_WithTwoHelpers_LeaveOneFree) {
  constexpr std::int64_t kLarge = HelperPool::kBytesMax;
  HelperPool pool(4);
  FairLine line;
  const auto give = [&]() -> PeerId {
    const auto given = pool.assign(line);
    return given ? given->second : 0;
  };
  pool.add(1);
  line.push("a", 1, kLarge);
  EXPECT_EQ(give(), 1u) << "alone it takes all";
  pool.add(2);
  line.push("a", 2, kLarge);
  EXPECT_EQ(give(), 0u);
  for (FairLine::Id id = 3; id <= 6; ++id) line.push(id % 2 == 0 ? "a" : "b", id, 10);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(give(), 2u);
  line.push("b", 7, 10);
  EXPECT_EQ(give(), 0u) << "it has four";
  pool.leave(1, 1);
  EXPECT_EQ(give(), 1u) << "b's small one, as a had more";
  EXPECT_EQ(give(), 1u) << "then a's large one";
  EXPECT_EQ(line.size(), 0u);
  EXPECT_EQ(pool.remove(2).size(), 4u);
  EXPECT_EQ(pool.remove(2).size(), 0u);
}

TEST(HelperPool, SmallJobs_WithSeveralHelpers_PreferTheReservedOne) {
  HelperPool pool(4);
  FairLine line;
  for (PeerId helper = 1; helper <= 3; ++helper) pool.add(helper);
  const auto give = [&](std::int64_t cost) {
    line.push("a", line.size() + static_cast<FairLine::Id>(cost), cost);
    return pool.assign(line)->second;
  };
  EXPECT_EQ(give(10), 3u);
  EXPECT_EQ(give(HelperPool::kBytesMax), 1u);
  EXPECT_EQ(give(HelperPool::kBytesMax + 1), 2u);
  EXPECT_EQ(give(11), 3u);
}

struct IngressBench : Bench {
  IngressBench() {
    boot();
    add_model(1 << 20, 4, 1 << 16);
  }
  void ask(const std::string& id, const std::string& tenant, std::size_t bytes) {
    wire::Submit s = text_submission(id);
    s.tenant = tenant;
    s.prompts[0].text = std::string(bytes, 'x');
    submit(std::move(s));
    take();
  }
  void take() {
    for (const auto& prepare : messages<wire::Prepare>()) jobs.push_back(prepare);
  }
  /// Ends the oldest job of the helper.
  void prepared() {
    wire::Prepared done;
    done.job = jobs.front().job;
    done.ok = true;
    done.ids = {{1, 2, 3}};
    jobs.erase(jobs.begin());
    step(PreparedEvent{kHelper, done});
    take();
  }
  /// Returns true if a job of so many bytes is at the helper.
  bool has(std::size_t bytes) const {
    return std::any_of(jobs.begin(), jobs.end(), [bytes](const wire::Prepare& job) {
      return job.prompts[0].text->size() == bytes;
    });
  }
  std::vector<wire::Prepare> jobs;  // at the helper
};

TEST(Preparing, LongTexts_WhenAnotherTenantComes_DoNotDelayIt) {
  IngressBench ingress_bench;
  for (int i = 0; i < 20; ++i) ingress_bench.ask("a" + std::to_string(i), "a", 200 << 10);
  EXPECT_EQ(ingress_bench.jobs.size(), 1u) << "it holds the helper alone";
  ingress_bench.ask("b", "b", 10);
  ingress_bench.prepared();
  EXPECT_TRUE(ingress_bench.has(10)) << "it is next";
  for (int i = 0; i < 20; ++i) ingress_bench.prepared();
  EXPECT_EQ(ingress_bench.jobs.size(), 0u);
  EXPECT_EQ(ingress_bench.machine.core().counters.accepted, 21u);
}

TEST(Preparing, LongTexts_WithTwoHelpers_LeaveOneFree) {
  IngressBench ingress_bench;
  constexpr PeerId kSecond = Bench::kHelper + 1;
  ingress_bench.step(IngressUp{kSecond});
  for (int i = 0; i < 20; ++i) ingress_bench.ask("a" + std::to_string(i), "a", 400 << 10);
  EXPECT_EQ(ingress_bench.jobs.size(), 1u) << "long texts hold one of the two";
  wire::Submit small = ingress_bench.text_submission("b");
  small.tenant = "b";
  ingress_bench.submit(std::move(small));
  EXPECT_EQ(ingress_bench.messages<wire::Prepare>(kSecond).size(), 1u) << "b waits for nobody";
  ingress_bench.step(PeerGone{kSecond});
  ingress_bench.take();
  EXPECT_EQ(ingress_bench.jobs.size(), 1u);
  ingress_bench.prepared();
  EXPECT_EQ(ingress_bench.jobs.size(), 2u) << "with one left all go to it, b's first";
}

TEST(Preparing, ShortTexts_WhenManyWait_AreSentToTheHelperInBatches) {
  IngressBench ingress_bench;
  for (int i = 0; i < 100; ++i) ingress_bench.ask("a" + std::to_string(i), "a", 10);
  EXPECT_EQ(ingress_bench.jobs.size(), 32u);
}

TEST(Preparing, FullQueue_WhenATenantHasLeastInIt_RefusesTheLargestTenantsNewest) {
  IngressBench ingress_bench;
  ingress_bench.step(
      OpConfig{Bench::kOperator, 1, "config.set", "ann", {{"queue.max_preparing", "10"}}, {}});
  for (int i = 0; i < 12; ++i) ingress_bench.ask("a" + std::to_string(i), "a", 300 << 10);
  ASSERT_EQ(ingress_bench.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(ingress_bench.messages<wire::Refused>()[0].refusal.code, Errc::kQueueFull);
  ingress_bench.ask("b", "b", 10);
  const auto refused = ingress_bench.messages<wire::Refused>();
  ASSERT_EQ(refused.size(), 1u) << "the newest of who has most";
  EXPECT_EQ(refused[0].refusal.code, Errc::kQueueFull);
  EXPECT_NE(refused[0].refusal.message.find("of this tenant"), std::string::npos);
  EXPECT_EQ(ingress_bench.machine.jobs().size(), 10);
  ingress_bench.prepared();
  EXPECT_TRUE(ingress_bench.has(10));
}

}  // namespace
}  // namespace holdfast::core::fair_line_test
