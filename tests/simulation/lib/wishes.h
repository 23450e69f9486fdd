#pragma once
// The requests of one seed.

#include <vector>

#include "tests/simulation/lib/wish.h"
#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

std::vector<Wish> draw_wishes(World& world);

}  // namespace holdfast::simulation
