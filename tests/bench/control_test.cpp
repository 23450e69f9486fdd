// Goal: bench/control measures what it says: every figure is there and means something, the counts
// of requests add up, and a run that went wrong says so. Never: that a figure is good.
// Method: one quick run of the real program as a script would read it; one with a model file that
// is not there.

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

struct Outcome {
  int status = -1;
  json document;
};

Outcome run_bench(const std::string& flags) {
  const std::string command = std::string(HOLDFAST_BIN_DIR) +
                              "/holdfast-bench-control --json --quick " + flags + " 2>/dev/null";
  Outcome run;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  std::string text;
  char buffer[4096];
  for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  run.status = pclose(pipe);
  run.document = json::parse(text, nullptr, false);
  return run;
}

double figure(const json& document, const std::string& name) {
  for (const json& one : document["figures"]) {
    if (one["name"] == name) return one["value"].get<double>();
  }
  ADD_FAILURE() << "no figure " << name;
  return -1;
}

TEST(BenchControl, EveryFigureIsThereAndTheCountsAddUp) {
  const Outcome run = run_bench("");
  ASSERT_TRUE(run.document.is_object());
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.document["problems"], json::array()) << run.document["problems"].dump();
  for (const char* fact : {"processor", "processors", "kernel", "filesystem", "mode"}) {
    EXPECT_TRUE(run.document["machine"].contains(fact)) << fact;
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
                           "failures.kill_to_requeued_ms.p99",
                           "failures.stop_to_requeued_busy_ms.max",
                           "suspicion.worker_s",
                           "cancel.queued_ms.p95",
                           "cancel.running_ms.p95",
                           "burst.rss_after_mib"}) {
    EXPECT_GT(figure(run.document, name), 0) << name;
  }
  // Requests that were counted out are counted in again; the run itself compares its own counts
  // with the daemon's and names each difference as a problem.
  EXPECT_EQ(figure(run.document, "restart.queued"), 500);
  EXPECT_EQ(figure(run.document, "burst.requests"), 500);
  EXPECT_LE(figure(run.document, "burst.left_at_silence"), 500);
  EXPECT_EQ(figure(run.document, "admission.rate_128.latency_ms.n"), 256);
  // A stopped worker cannot be noticed before its silence is longer than the heartbeat allows.
  EXPECT_GE(figure(run.document, "failures.stop_to_requeued_ms.p50"), 20);
  for (const json& one : run.document["figures"]) {
    if (one.contains("goal")) {
      EXPECT_TRUE(one["met"].is_boolean()) << one.dump();
    }
  }
}

TEST(BenchControl, ARunThatCannotMeasureSaysSo) {
  const Outcome run = run_bench("--only admission --model /nonexistent.gguf");
  EXPECT_NE(run.status, 0);
  ASSERT_TRUE(run.document.is_object());
  ASSERT_EQ(run.document["problems"].size(), 1U);
  EXPECT_NE(run.document["problems"][0].get<std::string>().find("admission"), std::string::npos);
}

}  // namespace
