// Goal: loads keep the rules of the memory pool on real processes: memory is free again after each
// of many loads; of two loads that fit one at a time, one is admitted and the other says what it
// waits for; only idle models are unloaded for a load, and not before their time; equal workers
// share equally; nothing is lost meanwhile. Method: quick runs of bench/models, which counts these
// itself and reports each violation as a problem.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/bench/run_bench.h"

namespace holdfast::bench::models_test {
namespace {

using nlohmann::json;

json run_case(const std::string& name) {
  json report = run_bench("holdfast-bench-models", "--quick --only " + name);
  EXPECT_TRUE(report.is_object()) << name;
  if (!report.is_object()) return json{{"figures", json::array()}};
  EXPECT_EQ(report["problems"], json::array()) << report["problems"].dump();
  return report;
}

TEST(BenchModels, ModelLoadCycles_AfterEachUnload_LeakNoMemory) {
  const json report = run_case("cycles");
  EXPECT_EQ(figure(report, "cycles.failures"), 0);
  EXPECT_LT(figure(report, "cycles.rss_per_cycle"), 256);  // KiB, of few cycles
  EXPECT_GT(figure(report, "cycles.first_over_steady"), 0);
}

TEST(BenchModels, ConcurrentLoads_WhenOnlyOneFits_AreAdmittedOneAtATime) {
  EXPECT_EQ(figure(run_case("collide"), "collide.rounds"), 8);
}

TEST(BenchModels, IdleModels_WhenMemoryIsShort_AreEvictedAfterTheirDwellTime) {
  const json report = run_case("pressure");
  EXPECT_EQ(figure(report, "pressure.lost"), 0);
  EXPECT_GT(figure(report, "pressure.requests"), 100);
}

TEST(BenchModels, ModelLoads_WhileOtherProcessesSpin_AreCounted) {
  const json report = run_case("spinners --spinners 2");
  EXPECT_EQ(figure(report, "spinners.workers_given_up"), 0);
  EXPECT_EQ(figure(report, "spinners.loads_failed"), 0);
  EXPECT_EQ(figure(report, "spinners.requests_lost"), 0);
  EXPECT_EQ(figure(report, "spinners.other_text"), 0);
  EXPECT_GE(figure(report, "spinners.loads"), 3);
  EXPECT_GT(figure(report, "spinners.requests"), 0);
}

TEST(BenchModels, EqualWorkers_UnderLoad_ShareItEqually) {
  // A short run is imprecise: the last steps of each worker count in full.
  EXPECT_LT(figure(run_case("balance"), "balance.imbalance"), 15);
}

}  // namespace
}  // namespace holdfast::bench::models_test
