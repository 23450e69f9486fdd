// Goal: bench/neighbours finds nothing lost or wrong: every request of a tenant ends with its
// expected text, and poison requests end as errors of their own, also over a restart. Never: that a
// figure is good. Method: a quick run of the cases that take seconds, and of the strangers'
// requests and figures.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/neighbours_run/crowd.h"
#include "tests/bench/run_bench.h"

namespace holdfast::bench::neighbours_test {
namespace {

using nlohmann::json;

TEST(BenchNeighbours, NeighboursBench_InAQuickRun_FindsNothingLostOrWrong) {
  int status = -1;
  const json report = run_bench("holdfast-bench-neighbours",
                                "--quick --engine fake --only fairness,strangers,poison", &status);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(report["problems"], json::array()) << report["problems"].dump();
  for (const char* api : {"sdk", "http"}) {
    const std::string name = std::string("fair.fake.") + api;
    EXPECT_GT(figure(report, name + ".one.p50"), 0);
    EXPECT_GT(figure(report, name + ".requests.p50_x"), 0);
    EXPECT_GT(figure(report, name + ".choices.p50_x"), 0);
  }
  EXPECT_GT(figure(report, "strangers.fake.new.with.n"), 0);
  EXPECT_GT(figure(report, "strangers.fake.memory_peak"), 0);
  EXPECT_GE(figure(report, "poison.fake.items"), 12) << "posts, lines, lines over a restart";
  EXPECT_GT(figure(report, "poison.fake.memory_peak"), 0);
}

TEST(BenchNeighbours, ParseCrowd_WithAnIncompleteLastLine_UsesTheLastWholeOne) {
  EXPECT_EQ(parse_crowd("").connected, 0);
  EXPECT_EQ(parse_crowd("1 2 3").connected, 0) << "not a whole line yet";
  const CrowdState state = parse_crowd("1 2 3\n40 500 60\n7 8");
  EXPECT_EQ(state.open, 40);
  EXPECT_EQ(state.connected, 500);
  EXPECT_EQ(state.dropped, 60);
}

TEST(BenchNeighbours, StrangerConnection_OfEachKind_SendsNoKeyAndNoWholeRequest) {
  for (const Stranger kind :
       {Stranger::kIdle, Stranger::kHalfHead, Stranger::kHalfBody, Stranger::kDrip}) {
    const std::string said = first_words(kind) + next_words(kind);
    EXPECT_EQ(said.find("Bearer"), std::string::npos);
    EXPECT_EQ(said.find("\r\n\r\n") != std::string::npos, kind == Stranger::kHalfBody);
  }
}

}  // namespace
}  // namespace holdfast::bench::neighbours_test
