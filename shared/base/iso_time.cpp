#include "shared/base/iso_time.h"

#include <cstdio>
#include <ctime>

namespace holdfast {

std::string iso_time(std::int64_t wall_ms) {
  const auto seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char date[32] = "";
  if (std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc) == 0) return {};
  char text[48] = "";
  (void)std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>(wall_ms % 1000));
  return text;
}

}  // namespace holdfast
