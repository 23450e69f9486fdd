#pragma once
// Bounds of a request's options, shared by HTTP, the command line and the daemon. Those of sampling
// parameters are in shared/sampling/parameters.h.

#include <cstddef>
#include <cstdint>

namespace holdfast::wire {

/// The valid values of an option, `low` and `high` included.
struct IntegerRange {
  std::int64_t low, high;
};

inline constexpr IntegerRange kMaxTokens{1, 1'000'000'000};
inline constexpr std::size_t kStopsMax = 16;
inline constexpr std::size_t kStopBytesMax = 1'024;  // of one

}  // namespace holdfast::wire
