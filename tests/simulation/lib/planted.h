#pragma once
// The simulator's own planted(): one bug at a time, in the whole process.

#include "control/core/planted.h"

namespace holdfast::simulation {

void plant(core::Bug bug);
struct BugInfo {
  core::Bug bug;
  std::string_view name;
  std::string_view breaks;
};
std::span<const BugInfo> planted_bugs();

}  // namespace holdfast::simulation
