// Goal: bench/gateway measures what it says: streams stay open and none breaks, each takes little
// memory, and the processor time of tokens and requests is counted. Method: a quick run; times are
// not judged here.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/bench/run_bench.h"

namespace holdfast::bench::gateway_test {
namespace {

TEST(BenchGateway, GatewayBench_With256Streams_ReportsAllOpenInLittleMemory) {
  const nlohmann::json report = run_bench("holdfast-bench-gateway", "--quick");
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["problems"], nlohmann::json::array()) << report["problems"].dump();
  EXPECT_EQ(figure(report, "streams.open"), 256);
  EXPECT_LE(figure(report, "streams.memory_each"), 64);
  EXPECT_GT(figure(report, "streams.tokens_rate"), 0);
  EXPECT_GT(figure(report, "cost.request_ms"), 0);
  EXPECT_GT(figure(report, "cost.token_us"), 0);
  EXPECT_GT(figure(report, "cost.flood_rate"), 0);
}

}  // namespace
}  // namespace holdfast::bench::gateway_test
