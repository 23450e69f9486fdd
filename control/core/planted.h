#pragma once
// A seam for tests: the places where a bug can be planted to see whether the simulator finds it.
// In the programs planted() is the one of planted.cpp, which says no; tests/simulation links its
// own. The list with what each of them breaks is planted_bugs.inc. Only on paths of an event or a
// row, never of a token.

#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast::core {

enum class Bug : std::uint8_t {
  kNone,
#define HOLDFAST_BUG(id, name, breaks) id,
#include "control/core/planted_bugs.inc"
#undef HOLDFAST_BUG
};

bool planted(Bug bug);

}  // namespace holdfast::core
