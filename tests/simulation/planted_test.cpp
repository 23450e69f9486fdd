// Goal: the net holds. Each planted bug (tests/simulation/bugs) must be found by the
// simulator, in a minute of one core at most; one that is not found shows a hole in the auditor or
// in the accidents. Method: plants one at a time in processes of their own and runs seeds until one
// fails.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/simulation/lib/planted.h"
#include "tests/simulation/lib/runner.h"
#include "tests/simulation/lib/swarm.h"
#include "tests/simulation/lib/test_main.h"

namespace holdfast::simulation::planted_test {
namespace {

constexpr std::uint64_t kSeedsMax = 5000;
constexpr double kCpuSecondsMax = 60;

void hunt(std::size_t first) {
  const auto bugs = planted_bugs();
  double seconds = 0;
  for (std::size_t i = first; i < bugs.size(); i += 2) {
    RunOptions options;
    options.first = kClusterSeeds + 157;  // as in swarm_test
    options.last = kClusterSeeds + kSeedsMax;
    options.bug = bugs[i].bug;
    options.stop_at_failure = true;
    options.cpu_seconds_max = kCpuSecondsMax;
    const RunResult result = run_seeds(options);
    seconds += result.seconds;
    const bool found = !result.failures.empty();
    std::printf("%-24.*s %5.1f s %5llu seeds  %s\n", static_cast<int>(bugs[i].name.size()),
                bugs[i].name.data(), result.seconds, static_cast<unsigned long long>(result.seeds),
                found ? result.failures[0].what.c_str() : "NOT FOUND");
    EXPECT_TRUE(found) << bugs[i].name << ": " << bugs[i].breaks;
  }
  std::printf("%.1f s in all\n", seconds);
}

TEST(PlantedBugs, InjectedBugs_AreAtLeastThirty) {
  EXPECT_GE(planted_bugs().size(), 30u);
}

TEST(PlantedBugs, InjectedBugs_WithEvenNumbers_AreFound) {
  hunt(0);
}

TEST(PlantedBugs, InjectedBugs_WithOddNumbers_AreFound) {
  hunt(1);
}

/// The canary: if this is not found, nothing above means anything.
TEST(PlantedBugs, CanaryBug_WhenInjected_IsFoundAndNothingElseIs) {
  RunOptions options;
  options.last = 60;
  EXPECT_TRUE(run_seeds(options).failures.empty());
  options.bug = Bug::kReleaseBeforeCommit;
  EXPECT_FALSE(run_seeds(options).failures.empty());
}

}  // namespace
}  // namespace holdfast::simulation::planted_test

int main(int argc, char** argv) {
  return holdfast::simulation::test_main(argc, argv, /*has_bugs=*/true);
}
