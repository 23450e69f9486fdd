// Goal: bench/scale builds the cluster that it was told to, and each request that it sends is
// dispatched. Never: that a figure is good. Method: a small cluster.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/bench/run_bench.h"

namespace holdfast::bench::scale_test {
namespace {

using nlohmann::json;

TEST(BenchScale, ScaleBench_OfASmallCluster_DispatchesEveryRequest) {
  int status = -1;
  const json document =
      run_bench("holdfast-bench-scale",
                "--nodes 5 --models 10 --streams 400 --requests 50 --seconds 2", &status);
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(document["problems"], json::array()) << document["problems"].dump();
  EXPECT_EQ(figure(document, "loads"), 50);
  EXPECT_EQ(figure(document, "streams"), 400);
  EXPECT_EQ(figure(document, "waited"), 0);
  EXPECT_GT(figure(document, "dispatch.n"), 50);
  EXPECT_EQ(figure(document, "step.submit.n"), figure(document, "dispatch.n"));
}

TEST(BenchScale, ScaleBench_WithoutSlotsForAllStreams_SaysSo) {
  int status = -1;
  const json document =
      run_bench("holdfast-bench-scale",
                "--nodes 5 --models 10 --slots 1 --streams 400 --seconds 0.1", &status);
  ASSERT_TRUE(document.is_object());
  EXPECT_NE(status, 0);
  EXPECT_EQ(document["problems"].size(), 1u);
}

}  // namespace
}  // namespace holdfast::bench::scale_test
