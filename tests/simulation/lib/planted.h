#pragma once
// The switch of the bugs of tests/simulation/bugs: one at a time, in the whole process. The sources
// that ask it are copies in the build; a program that is linked with the real ones has no bugs.
// Thread rule: set before anything runs.

#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast::simulation {

enum class Bug : std::uint8_t {
  kNone,
#define HOLDFAST_BUG(id, name, breaks) id,
#include "planted_bugs.inc"
#undef HOLDFAST_BUG
};

/// True while this bug is turned on.
bool planted(Bug bug);

void plant(Bug bug);

struct BugInfo {
  Bug bug;
  std::string_view name;
  std::string_view breaks;
};
std::span<const BugInfo> planted_bugs();

}  // namespace holdfast::simulation
