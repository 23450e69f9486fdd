#pragma once
// Bounds of a request's options, shared by HTTP and the command line.

#include <cstddef>
#include <cstdint>

namespace holdfast::wire {

/// The valid values of an option, `low` and `high` included.
struct RealRange {
  double low, high;
};
/// The valid values of an option, `low` and `high` included.
struct IntegerRange {
  std::int64_t low, high;
};

inline constexpr RealRange kTemperature{0, 2};
inline constexpr RealRange kTopP{0, 1};
inline constexpr RealRange kMinP{0, 1};
inline constexpr RealRange kPresencePenalty{-2, 2};
inline constexpr RealRange kFrequencyPenalty{-2, 2};
inline constexpr RealRange kRepetitionPenalty{0.01, 10};
inline constexpr IntegerRange kTopK{-1, INT32_MAX};  // -1 and 0: all tokens
inline constexpr IntegerRange kMinTokens{0, INT32_MAX};
inline constexpr IntegerRange kMaxTokens{1, std::int64_t{1} << 40};
inline constexpr IntegerRange kLogprobs{0, 20};  // of a position, besides the token's own
inline constexpr std::size_t kStopsMax = 16;
inline constexpr std::size_t kStopBytesMax = 1'024;  // of one

}  // namespace holdfast::wire
