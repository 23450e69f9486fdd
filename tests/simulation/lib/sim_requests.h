#pragma once
// The requests of one seed.

#include <vector>

#include "tests/simulation/lib/sim_request.h"
#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

std::vector<SimRequest> draw_requests(World& world);

}  // namespace holdfast::simulation
