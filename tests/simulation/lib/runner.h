#pragma once
// Many seeds over several processes. A seed that ends its process (a failed CHECK) is a failure
// like any other, and the rest goes on.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/lib/planted.h"
#include "tests/simulation/lib/simulation.h"

namespace holdfast::simulation {

struct RunOptions {
  std::uint64_t first = 1, last = 1, stride = 1;
  int jobs = 1;
  Bug bug = Bug::kNone;
  bool stop_at_failure = false;
  double cpu_seconds_max = 1e9;  // of each job
};
struct SeedFailure {
  std::uint64_t seed = 0;
  std::string what;
};
struct RunResult {
  Counts counts;
  std::uint64_t seeds = 0;
  std::vector<SeedFailure> failures;
  double seconds = 0;
};
RunResult run_seeds(const RunOptions& options);

/// The faults of one machine and the transitions that were hit fewer than `least` times, one line
/// each.
std::string missing_coverage(const Counts& counts, std::uint64_t least);
/// The same of the faults of standbys, records and nodes.
std::string missing_cluster_coverage(const Counts& counts, std::uint64_t least);
/// Everything that was counted, for people.
std::string coverage_table(const Counts& counts);

/// --seed N | --seeds A..B [--jobs J] [--bug NAME] [--verbose] [--stop]. Returns 1 if a seed failed
/// (--stop: at the first one), 2 for arguments that are not understood. --bug only with `has_bugs`:
/// a program that is linked with the real sources has none to turn on.
int command_line(int argc, char** argv, bool has_bugs);

}  // namespace holdfast::simulation
