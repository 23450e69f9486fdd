#pragma once
// Times of day as ISO 8601 writes them.

#include <cstdint>
#include <string>

namespace holdfast {

/// Returns "2026-11-27T18:20:00.123Z" of milliseconds since 1970.
std::string iso_time(std::int64_t wall_ms);

}  // namespace holdfast
