// Goal: bench/compare finds figures that became worse, and nothing else: a regression is worse by
// more than the threshold and beyond what the samples' spread explains; figures that cannot be
// judged are not judged; records that cannot be read, or are of two kinds, are refused. Method:
// made-up records, read by the real program.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/run_bench.h"

namespace holdfast::bench::compare_test {
namespace {

using nlohmann::json;

class Compare : public testing::Test {
 protected:
  Compare() {
    std::string pattern = testing::TempDir() + "hf-compare-XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~Compare() override { std::filesystem::remove_all(dir_); }

  /// A figure with samples; its value is the middle one.
  static json figure_of(const std::string& name, const std::vector<double>& samples,
                        const std::string& better = "higher") {
    return {{"name", name},
            {"value", samples[samples.size() / 2]},
            {"unit", "tokens/s"},
            {"better", better},
            {"samples", samples}};
  }
  std::string record(const std::string& name, const json& figures,
                     const std::string& kind = "matrix") {
    return text(name, json{{"kind", kind},
                           {"machine", {{"processor", "p"}}},
                           {"figures", figures},
                           {"problems", json::array()}}
                          .dump());
  }
  std::string text(const std::string& name, const std::string& content) {
    std::ofstream(dir_ + "/" + name) << content;
    return dir_ + "/" + name;
  }
  /// The verdict on the only figure; status_ is the program's exit status.
  std::string verdict(const json& before, const json& after, const std::string& flags = "") {
    const json found =
        run(record("a", json::array({before})), record("b", json::array({after})), flags);
    return found.is_object() ? found["figures"][0].value("verdict", "") : "nothing";
  }
  json run(const std::string& before, const std::string& after, const std::string& flags = "") {
    const json found =
        run_bench("holdfast", "bench compare " + before + " " + after + " " + flags, &status_);
    status_ = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
    return found;
  }
  std::string dir_;
  int status_ = -1;
};

const std::vector<double> kHundred = {99, 100, 101, 100, 99.5};

TEST_F(Compare, BenchCompare_WhenARateFalls_ReportsRegression) {
  EXPECT_EQ(verdict(figure_of("x", kHundred), figure_of("x", {89, 90, 91, 90, 90})), "REGRESSION");
  EXPECT_EQ(status_, 1);
  EXPECT_EQ(verdict(figure_of("x", kHundred), figure_of("x", {109, 110, 111, 110, 110})), "better");
  EXPECT_EQ(status_, 0);
}

TEST_F(Compare, BenchCompare_WhenATimeGrows_ReportsRegression) {
  EXPECT_EQ(verdict(figure_of("x", kHundred, "lower"), figure_of("x", {110, 111, 112}, "lower")),
            "REGRESSION");
  EXPECT_EQ(status_, 1);
  EXPECT_EQ(verdict(figure_of("x", kHundred, "lower"), figure_of("x", {80, 81, 82}, "lower")),
            "better");
  EXPECT_EQ(status_, 0);
}

TEST_F(Compare, BenchCompare_WhenWithinTheThreshold_ReportsSame) {
  const json slower = figure_of("x", {96.9, 97, 97.1, 97, 97});
  const json tight = figure_of("x", {99.9, 100, 100.1, 100, 100});
  EXPECT_EQ(verdict(tight, slower), "same");
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(verdict(tight, slower, "--threshold 2"), "REGRESSION");
  EXPECT_EQ(status_, 1);
  EXPECT_EQ(verdict(tight, slower, "--threshold 4"), "same");
}

TEST_F(Compare, BenchCompare_WhenSamplesSpreadWidely_ReportsSame) {
  // The median fell by a fifth, and the samples of each side overlap the other's.
  EXPECT_EQ(
      verdict(figure_of("x", {60, 100, 140, 90, 110}), figure_of("x", {50, 80, 130, 70, 120})),
      "same");
  EXPECT_EQ(status_, 0);
}

TEST_F(Compare, ConfidenceInterval_WhenARateFalls_ContainsTheRatio) {
  const json found = run(record("a", json::array({figure_of("x", kHundred)})),
                         record("b", json::array({figure_of("x", {89, 90, 91, 90, 90})})));
  const json& one = found["figures"][0];
  EXPECT_NEAR(one["ratio"].get<double>(), 0.91, 0.02);
  EXPECT_LE(one["low"].get<double>(), one["ratio"].get<double>());
  EXPECT_GE(one["high"].get<double>(), one["ratio"].get<double>());
  EXPECT_GT(one["low"].get<double>(), 0.85);
  EXPECT_LT(one["high"].get<double>(), 0.95);
}

TEST_F(Compare, BenchCompare_WhenDataIsInsufficient_IsNotJudged) {
  EXPECT_EQ(verdict(figure_of("x", {100, 100}), figure_of("x", {50, 50})), "not judged");
  json no_direction = figure_of("x", {50, 50, 50});
  no_direction.erase("better");
  EXPECT_EQ(verdict(figure_of("x", kHundred), no_direction), "not judged");
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(verdict(figure_of("x", kHundred), figure_of("y", kHundred)), "only in OLD");
  EXPECT_EQ(status_, 0);
}

TEST_F(Compare, BenchCompare_WithOutputOfHoldfastBench_JudgesTheDecodeRate) {
  const auto output = [&](const std::string& name, double decode) {
    return text(name, json{{"kernels", "avx512"},
                           {"threads", 2},
                           {"streams", 1},
                           {"context", 1},
                           {"prompt_tokens", 0},
                           {"prefill_samples", json::array()},
                           {"decode_samples", {decode, decode + 0.1, decode - 0.1}}}
                          .dump());
  };
  const json found = run(output("a", 40), output("b", 30));
  EXPECT_EQ(status_, 1);
  ASSERT_EQ(found["figures"].size(), 1u);
  EXPECT_EQ(found["figures"][0]["name"], "decode");
  EXPECT_EQ(found["figures"][0]["verdict"], "REGRESSION");
}

TEST_F(Compare, BenchCompare_WithUnreadableOrMixedRecords_IsRefused) {
  const std::string good = record("good", json::array({figure_of("x", kHundred)}));
  run(good, dir_ + "/absent");
  EXPECT_EQ(status_, 2);
  run(text("broken", "{\"kind\": \"matrix\","), good);
  EXPECT_EQ(status_, 2);
  run(text("strange", "{\"kind\": \"matrix\", \"machine\": {}, \"figures\": [{}]}"), good);
  EXPECT_EQ(status_, 2);
  run(good, record("other", json::array({figure_of("x", kHundred)}), "peers"));
  EXPECT_EQ(status_, 2);
  run(good, good, "--threshold many");
  EXPECT_EQ(status_, 2);
  run(good, good);
  EXPECT_EQ(status_, 0);
}

}  // namespace
}  // namespace holdfast::bench::compare_test
