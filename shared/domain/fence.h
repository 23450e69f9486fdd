#pragma once
// The number of an attempt, by which results of an earlier one are told and refused.

#include <compare>
#include <cstdint>

namespace holdfast::domain {

/// Orders the attempts of a request: a later fence always compares greater, also over daemon
/// restarts (the boot epoch is raised, durably, before the first socket is bound).
struct Fence {
  std::uint64_t epoch = 0;
  std::uint64_t counter = 0;
  auto operator<=>(const Fence&) const = default;
};

}  // namespace holdfast::domain
