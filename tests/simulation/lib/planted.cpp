#include "tests/simulation/lib/planted.h"

namespace holdfast {
namespace {

core::Bug g_bug = core::Bug::kNone;

}  // namespace

namespace core {

bool planted(Bug bug) {
  return bug == g_bug;
}

}  // namespace core

namespace simulation {

void plant(core::Bug bug) {
  g_bug = bug;
}

std::span<const BugInfo> planted_bugs() {
  static constexpr BugInfo kBugs[] = {
#define HOLDFAST_BUG(id, name, breaks) {core::Bug::id, name, breaks},
#include "control/core/planted_bugs.inc"
#undef HOLDFAST_BUG
  };
  return kBugs;
}

}  // namespace simulation
}  // namespace holdfast
