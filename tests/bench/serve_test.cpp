// Goal: bench/serve requests what it says: all requests are answered in full, rates and percentiles
// have their samples, pairs of two servers give ratios, and loads that are shares of the capacity
// come at random times. Method: the fake engine in the real programs, the same server on both
// sides.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/lib/local_cluster.h"
#include "tests/bench/run_bench.h"

namespace holdfast::bench::serve_test {
namespace {

using nlohmann::json;

class BenchServe : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "hf-serve-XXXXXX";
    dir_ = mkdtemp(pattern.data());
    cluster_ = std::make_unique<LocalCluster>(
        ClusterOptions{HOLDFAST_BIN_DIR,
                       std::string(HOLDFAST_SOURCE_DIR) + "/ops/demo/holdfast-demo-Q8_0.gguf",
                       dir_ + "/state",
                       {}});
    need(cluster_->start());
    need(cluster_->add_model(R"({"step_us":1000,"slots":8,"pages":256})", 8));
    need(cluster_->start_worker("w0"));
    need(cluster_->wait_ready(1));
    need(cluster_->start_gateway());
  }
  void TearDown() override {
    cluster_.reset();
    std::filesystem::remove_all(dir_);
  }
  static void need(const Result<void>& done) { ASSERT_TRUE(done.has_value()) << done.error().what; }
  json run(const std::string& flags) {
    const std::string url = "http://127.0.0.1:" + std::to_string(cluster_->http_port());
    int status = -1;
    const json report = run_bench(
        "holdfast-bench-serve",
        "--url " + url + " --vocab 300 --max-tokens 8 " +
            (flags.find("--rate") == std::string::npos ? "--against " + url + " " : "") + flags,
        &status);
    EXPECT_EQ(status, 0) << report.dump();
    return report;
  }
  std::string dir_;
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(BenchServe, ServeBench_WithTwoServers_ReportsRatiosOfPairedBlocks) {
  const json report = run("--prompts 16 --concurrency 3 --rounds 2 --pairs 3");
  EXPECT_EQ(figure(report, "a.p16.c3.first_ms.n"), 3 * 2 * 3);
  EXPECT_EQ(figure(report, "b.p16.c3.first_ms.n"), 3 * 2 * 3);
  EXPECT_GT(figure(report, "a.p16.c3.rate"), 0);
  // Prompts have twice as many tokens as answers.
  EXPECT_NEAR(figure(report, "a.p16.c3.prompt_rate"), 2 * figure(report, "a.p16.c3.rate"),
              0.01 * figure(report, "a.p16.c3.prompt_rate"));
  for (const json& one : report["figures"]) {
    const std::string name = one["name"];
    if (name == "ratio.p16.c3.rate" || name == "ratio.p16.c3.first_p95") {
      EXPECT_EQ(one["samples"].size(), 3u) << one.dump();
    }
  }
  EXPECT_GT(figure(report, "ratio.p16.c3.rate"), 0);
}

TEST_F(BenchServe, ServeBench_AtSharesOfTheCapacity_ReportsLatencyPercentiles) {
  const json report =
      run("--rate 50,80 --prompts 16 --concurrency 4 --rounds 4 --requests 12 --pairs 2");
  EXPECT_GT(figure(report, "capacity.requests"), 0);
  for (const std::string share : {"at50", "at80"}) {
    EXPECT_EQ(figure(report, share + ".request_ms.n"), 24);
    EXPECT_GE(figure(report, share + ".request_ms.p99"), figure(report, share + ".gap_ms.p99"));
  }
  const double p99 = figure(report, "at80.request_ms.p99");
  // Within four digits: the shares' percentiles may be almost equal.
  EXPECT_NEAR(figure(report, "at80_over_50.request.p99"),
              p99 / figure(report, "at50.request_ms.p99"), 1.5e-3);
  EXPECT_NEAR(figure(report, "at80.p99_over_p50.request"),
              p99 / figure(report, "at80.request_ms.p50"), 1.5e-3);
}

}  // namespace
}  // namespace holdfast::bench::serve_test
