// Goal: each client sees each token once, in order, and exactly those of an uninterrupted run,
// whatever dies whenever; a request that was accepted ends.
// Method: machine and real SQLite with a scripted worker and client (scripted_house.h), random
// accidents out of one seed: the daemon dies before and after commits, the worker dies, loses its
// connection, comes back late, repeats itself. The client checks order as events come; at the end
// every token is compared with a pure function.
#include <gtest/gtest.h>

#include "tests/store/scripted_house.h"

namespace holdfast::store::house_test {
namespace {

constexpr std::uint64_t kSeeds = 150;
constexpr int kTicks = 400;

TEST(House, EveryTokenOnceAndInOrderThroughAnyAccident) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const TempState state(/*in_memory=*/true);
    ScriptedHouse house(seed, state.dir());
    for (int i = 0; i < 8; ++i) {
      ScriptedHouse::Wish wish;
      wish.id = "r" + std::to_string(i);
      wish.seed = seed * 100 + static_cast<std::uint64_t>(i);
      wish.n = 1 + i % 3;
      wish.tokens = 10 + 17 * i;
      wish.cancel = i == 5;
      house.add_request(wish);
    }
    for (int i = 0; i < kTicks; ++i) house.tick();
    ASSERT_TRUE(house.settle(5'000)) << "seed " << seed << ": some request never ended";
    ASSERT_EQ(house.audit(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace holdfast::store::house_test
