// Goal: each client sees each token once, in order, and exactly those of an uninterrupted run,
// whatever dies at any time; an accepted request ends.
// Method: machine and real SQLite with a scripted worker and client (scripted_cluster.h), random
// accidents from one seed: the daemon dies before and after commits, the worker dies, loses its
// connection, comes back late, repeats itself. The client checks order as events come; at the end
// every token is compared with a pure function.
#include <gtest/gtest.h>

#include "tests/store/scripted_cluster.h"

namespace holdfast::store::scripted_cluster_test {
namespace {

constexpr std::uint64_t kSeeds = 150;
constexpr int kTicks = 400;

TEST(ScriptedCluster, Tokens_WhenDaemonOrWorkerCrashes_ArriveOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const TempState state(/*in_memory=*/true);
    ScriptedCluster cluster(seed, state.dir());
    for (int i = 0; i < 8; ++i) {
      ScriptedCluster::ClientRequest request;
      request.id = "r" + std::to_string(i);
      request.seed = seed * 100 + static_cast<std::uint64_t>(i);
      request.n = 1 + i % 3;
      request.tokens = 10 + 17 * i;
      request.cancel = i == 5;
      cluster.add_request(request);
    }
    for (int i = 0; i < kTicks; ++i) cluster.tick();
    ASSERT_TRUE(cluster.settle(5'000)) << "seed " << seed << ": some request never ended";
    ASSERT_EQ(cluster.audit(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace holdfast::store::scripted_cluster_test
