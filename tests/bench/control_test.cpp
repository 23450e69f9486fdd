// Goal: bench/control measures what it says: every figure is present and means something, the
// counts of requests add up, and a run that fails says so. Never: that a figure is good.
// Method: one quick run of the real program as a script reads it; one with the real engine; one
// with a missing model file.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/run_bench.h"

namespace holdfast::bench::control_test {
namespace {

using nlohmann::json;

TEST(BenchControl, ControlBench_InAQuickRun_ReportsEveryFigureAndConsistentCounts) {
  int status = -1;
  const json report = run_bench("holdfast-bench-control", "--quick", &status);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(report["problems"], json::array()) << report["problems"].dump();
  for (const char* fact : {"processor", "processors", "kernel", "filesystem", "mode"}) {
    EXPECT_TRUE(report["machine"].contains(fact)) << fact;
  }
  for (const char* name : {"disk.write_fdatasync_ms.p50",
                           "disk.write_fdatasync_ms.p99",
                           "disk.bare_sqlite_rate_1",
                           "disk.bare_sqlite_rate_128",
                           "admission.rate_1",
                           "admission.rate_128",
                           "admission.rate_128.of_bare_sqlite",
                           "admission.text_rate_128",
                           "admission.half_load_latency_ms.p99",
                           "tokens.persisted_rate",
                           "tokens.age_ms.p50",
                           "tokens.age_with_admissions_ms.p50",
                           "restart.kill_to_accepted_ms.p99",
                           "restart.process_start_ms",
                           "failures.kill_to_requeued_ms.n",  // whole ms: 0 on a quiet machine
                           "failures.stop_to_requeued_busy_ms.max",
                           "suspicion.worker_s",
                           "cancel.queued_ms.p95",
                           "cancel.running_ms.p95",
                           "burst.rss_after_mib"}) {
    EXPECT_GT(figure(report, name), 0) << name;
  }
  // The counts of submitted and finished requests agree; the run itself compares its counts with
  // the daemon's and reports each difference as a problem.
  EXPECT_EQ(figure(report, "restart.queued"), 500);
  EXPECT_EQ(figure(report, "burst.requests"), 500);
  EXPECT_LE(figure(report, "burst.left_at_silence"), 500);
  EXPECT_EQ(figure(report, "admission.rate_128.latency_ms.n"), 256);
  // The silence of a stopped worker is noticed only when it exceeds what the heartbeat allows.
  EXPECT_GE(figure(report, "failures.stop_to_requeued_ms.p50"), 20);
  for (const json& one : report["figures"]) {
    if (one.contains("goal")) {
      EXPECT_TRUE(one["met"].is_boolean()) << one.dump();
    }
  }
}

TEST(BenchControl, ControlBench_WithEngineModel_MeasuresTheRealEngine) {
  const json report =
      run_bench("holdfast-bench-control",
                "--quick --engine model --only failures,cancel,burst,suspicion,tokens");
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["problems"], json::array()) << report["problems"].dump();
  EXPECT_EQ(report["machine"]["engine"], "model");
  EXPECT_TRUE(report["skipped"].contains("tokens")) << report["skipped"];
  EXPECT_GT(figure(report, "failures.kill_to_requeued_ms.n"), 0);
  EXPECT_GT(figure(report, "suspicion.worker_s"), 0);
  EXPECT_GT(figure(report, "cancel.running_ms.p95"), 0);
  EXPECT_EQ(figure(report, "burst.requests"), 500);
}

TEST(BenchControl, ControlBench_WhenTheModelFileIsMissing_ReportsAProblem) {
  int status = 0;
  const json report = run_bench("holdfast-bench-control",
                                "--quick --only admission --model /nonexistent.gguf", &status);
  EXPECT_NE(status, 0);
  ASSERT_TRUE(report.is_object());
  ASSERT_EQ(report["problems"].size(), 1U);
  EXPECT_NE(report["problems"][0].get<std::string>().find("admission"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::bench::control_test
