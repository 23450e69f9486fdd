// Goal: loads keep the rules of the pool on real processes: memory comes back after each of many
// loads, of two loads that fit one at a time one is admitted and the other says what it waits for,
// idle models alone make room and not before their time, equal workers share equally; nothing is
// lost meanwhile. Method: quick runs of bench/models, which counts these itself and names what is
// against a rule as a problem.
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

TEST(BenchModels, NothingIsLeftOfALoad) {
  const json report = run_case("cycles");
  EXPECT_EQ(figure(report, "cycles.failures"), 0);
  EXPECT_LT(figure(report, "cycles.rss_per_cycle"), 256);  // KiB, of few cycles
  EXPECT_GT(figure(report, "cycles.first_over_steady"), 0);
}

TEST(BenchModels, OneOfTwoLoadsIsAdmitted) {
  EXPECT_EQ(figure(run_case("collide"), "collide.rounds"), 8);
}

TEST(BenchModels, IdleModelsMakeRoomInTheirTime) {
  const json report = run_case("pressure");
  EXPECT_EQ(figure(report, "pressure.lost"), 0);
  EXPECT_GT(figure(report, "pressure.requests"), 100);
}

TEST(BenchModels, LoadsBesideSpinnersAreCounted) {
  const json report = run_case("spinners --spinners 2");
  EXPECT_EQ(figure(report, "spinners.workers_given_up"), 0);
  EXPECT_EQ(figure(report, "spinners.loads_failed"), 0);
  EXPECT_EQ(figure(report, "spinners.requests_lost"), 0);
  EXPECT_EQ(figure(report, "spinners.other_text"), 0);
  EXPECT_GE(figure(report, "spinners.loads"), 3);
  EXPECT_GT(figure(report, "spinners.requests"), 0);
}

TEST(BenchModels, EqualWorkersShareEqually) {
  // A short run is coarse: the last steps of each worker count in full.
  EXPECT_LT(figure(run_case("balance"), "balance.imbalance"), 15);
}

TEST(BenchModels, WhatBoundsCostIsMeasured) {
  EXPECT_GT(figure(run_case("guards"), "guards.rate_on_over_off"), 0);
}

}  // namespace
}  // namespace holdfast::bench::models_test
