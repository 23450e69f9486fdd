// Goal: `holdfast bench` reports what a forward costs: rates, the share of what memory and
// processors give, barriers; what was not measured is zero. Method: the demo model, whose matrices
// are added up here from its shape; the rates themselves are not checked.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/bench/run_bench.h"

namespace holdfast::bench::engine_test {
namespace {

using nlohmann::json;

const std::string kDemo = std::string(HOLDFAST_SOURCE_DIR) + "/ops/demo/holdfast-demo-Q8_0.gguf";

TEST(EngineBench, EngineBench_AfterARun_ReportsRatesAndPercentOfPeak) {
  const json found = run_bench("holdfast", "bench " + kDemo + " -p 64 -n 8 -b 2 -r 3 -t 2");
  ASSERT_TRUE(found.is_object());
  for (const char* name : {"prefill", "decode"}) {
    const std::string part = name;
    const double rate = found[part + "_tok_s"], tops = found[part + "_tops"];
    EXPECT_GT(rate, 0);
    EXPECT_GT(found[part + "_peak_tops"], 0);
    EXPECT_GT(found[part + "_percent"], 0);
    EXPECT_LE(found[part + "_percent"], 150);  // measured at another moment, on a shared machine
    EXPECT_EQ(found[part + "_samples"].size(), 3u);
    // Multiplications and additions with the weights, of which each takes 1 + 1/16 bytes.
    const double work = tops * 1e12 / rate;
    const double weights = found["bytes_per_token"].get<double>() / 1.0625;
    if (part == "decode") {
      EXPECT_NEAR(work, 2 * weights, 1e-3 * weights);  // nothing else is read
    } else {                                           // logits once a prompt
      EXPECT_GT(work, weights);
      EXPECT_LT(work, 2 * weights);
    }
  }
  EXPECT_GT(found["stream_percent"], 0);
  EXPECT_GE(found["barriers_per_step"], 5);
  EXPECT_EQ(found["barriers_per_step"].get<double>(),
            static_cast<double>(found["barriers_per_step"].get<int>()));  // the same in each step
}

TEST(EngineBench, EngineBench_WithOneThread_ReportsNoBarriers) {
  const json found = run_bench("holdfast", "bench " + kDemo + " -p 0 -n 4 -t 1");
  ASSERT_TRUE(found.is_object());
  EXPECT_EQ(found["barriers_per_step"], 0);
  EXPECT_EQ(found["prefill_tok_s"], 0);
  EXPECT_EQ(found["prefill_percent"], 0);
  EXPECT_GT(found["decode_percent"], 0);
}

}  // namespace
}  // namespace holdfast::bench::engine_test
