// Goal: bench/soak counts what it says: every request that it sent is accounted for, kills
// happened, and repeated requests gave the same tokens. Never: that a figure is good.
// Method: a run of seconds with a kill every second, so that each kind of process dies once.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/run_bench.h"

namespace holdfast::bench::soak_test {
namespace {

using nlohmann::json;

TEST(BenchSoak, SoakBench_WithAKillEverySecond_AccountsForEveryRequest) {
  int status = -1;
  const json document = run_bench("holdfast-bench-soak", "--hours 0.005 --kill-every 1", &status);
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(document["problems"], json::array()) << document["problems"].dump();
  EXPECT_GT(figure(document, "soak.submitted"), 500);  // kinds repeat
  EXPECT_EQ(figure(document, "soak.succeeded"), figure(document, "soak.submitted"));
  EXPECT_EQ(figure(document, "soak.request_ms.n"), figure(document, "soak.submitted"));
  EXPECT_EQ(figure(document, "soak.other_tokens"), 0);
  EXPECT_GE(figure(document, "soak.kills"), 6);
  EXPECT_GE(figure(document, "soak.daemon_kills"), 1);
  for (const char* name : {"soak.rss_max", "soak.descriptors_max", "soak.wal_max", "soak.rate"}) {
    EXPECT_GT(figure(document, name), 0) << name;
  }
  for (const char* name : {"soak.rss_slope", "soak.descriptors_slope", "soak.queue_slope"}) {
    figure(document, name);  // present; the run is too short for a meaningful value
  }
}

}  // namespace
}  // namespace holdfast::bench::soak_test
