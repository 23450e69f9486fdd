// Goal: in front of the helpers tenants take turns by what their jobs cost, and a full line makes
// room for who has few in it. Method: the line by itself, then submissions into a machine whose
// helper takes so much at a time.
#include "control/core/fair_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/core/bench_machine.h"

namespace holdfast::core::fair_line_test {
namespace {

TEST(FairLine, TenantsTakeTurnsByCost) {
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

TEST(FairLine, WhoWasAwaySavesNothingUpAndOwesWhatItTook) {
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

struct Desk : Bench {
  Desk() {
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
  /// The helper ends the oldest of its jobs.
  void prepared() {
    wire::Prepared done;
    done.job = jobs.front().job;
    done.ok = true;
    done.ids = {{1, 2, 3}};
    jobs.erase(jobs.begin());
    step(PreparedEvent{kHelper, done});
    take();
  }
  /// A job of so many bytes is at the helper.
  bool has(std::size_t bytes) const {
    return std::any_of(jobs.begin(), jobs.end(), [bytes](const wire::Prepare& job) {
      return job.prompts[0].text->size() == bytes;
    });
  }
  std::vector<wire::Prepare> jobs;  // at the helper
};

TEST(Preparing, LongTextsOfOneTenantDoNotHoldUpAnother) {
  Desk desk;
  for (int i = 0; i < 20; ++i) desk.ask("a" + std::to_string(i), "a", 200 << 10);
  EXPECT_EQ(desk.jobs.size(), 2u) << "of 256 KiB, and what was begun before";
  desk.ask("b", "b", 10);
  desk.prepared();
  EXPECT_TRUE(desk.has(10)) << "it is next";
  for (int i = 0; i < 20; ++i) desk.prepared();
  EXPECT_EQ(desk.jobs.size(), 0u);
  EXPECT_EQ(desk.machine.counters().accepted, 21u);
}

TEST(Preparing, ShortOnesAreGivenManyAtATime) {
  Desk desk;
  for (int i = 0; i < 100; ++i) desk.ask("a" + std::to_string(i), "a", 10);
  EXPECT_EQ(desk.jobs.size(), 32u);
}

TEST(Preparing, AFullLineMakesRoomForWhoHasFewInIt) {
  Desk desk;
  desk.step(
      OpConfig{Bench::kOperator, 1, "config.set", "ann", {{"queue.max_preparing", "10"}}, {}});
  for (int i = 0; i < 12; ++i) desk.ask("a" + std::to_string(i), "a", 300 << 10);
  ASSERT_EQ(desk.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(desk.messages<wire::Refused>()[0].refusal.code, Errc::kQueueFull);
  desk.ask("b", "b", 10);
  const auto refused = desk.messages<wire::Refused>();
  ASSERT_EQ(refused.size(), 1u) << "the newest of who has most";
  EXPECT_EQ(refused[0].refusal.code, Errc::kQueueFull);
  EXPECT_NE(refused[0].refusal.message.find("of this tenant"), std::string::npos);
  EXPECT_EQ(desk.machine.preparing(), 10);
  desk.prepared();
  EXPECT_TRUE(desk.has(10));
}

}  // namespace
}  // namespace holdfast::core::fair_line_test
