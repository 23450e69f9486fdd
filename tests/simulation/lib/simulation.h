#pragma once
// One seed: a cluster with its disk, network, workers, clients and operators through a time of
// accidents, then healing, then the audit.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

struct Report {
  std::string failure;  // empty: nothing was broken
  std::uint64_t hash = 0;
  Counts counts;
  std::vector<std::string> last_lines;  // verbose only
};
Report run_seed(std::uint64_t seed, bool verbose = false);

}  // namespace holdfast::simulation
