#pragma once
// Token ids that say when they were made, for measuring how long a token takes to its reader. Only
// the fake engine with `stamp_ids` makes them; both processes must run on one machine.

#include <cstdint>

namespace holdfast {

inline constexpr std::int64_t kStampMask = (std::int64_t{1} << 30) - 1;  // 18 minutes

/// The lower bits of the monotonic clock, as a token id.
inline std::int32_t stamp_id(std::int64_t now_us) {
  return static_cast<std::int32_t>(now_us & kStampMask);
}
/// Age of a stamped id in microseconds; right for ages below 18 minutes.
inline std::int64_t stamp_age_us(std::int32_t id, std::int64_t now_us) {
  return (now_us - id) & kStampMask;
}

}  // namespace holdfast
