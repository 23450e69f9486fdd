#include "tests/simulation/lib/planted.h"

namespace holdfast::simulation {
namespace {

Bug g_bug = Bug::kNone;

}  // namespace

bool planted(Bug bug) {
  return bug == g_bug;
}

void plant(Bug bug) {
  g_bug = bug;
}

std::span<const BugInfo> planted_bugs() {
  static constexpr BugInfo kBugs[] = {
#define HOLDFAST_BUG(id, name, breaks) {Bug::id, name, breaks},
#include "planted_bugs.inc"
#undef HOLDFAST_BUG
  };
  return kBugs;
}

}  // namespace holdfast::simulation
