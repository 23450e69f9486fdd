#include "shared/base/clock.h"

#include <time.h>

#include "shared/base/check.h"

namespace holdfast {
namespace {

std::int64_t read_us(clockid_t id) {
  timespec t{};
  CHECK(clock_gettime(id, &t) == 0);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000 + t.tv_nsec / 1000;
}

struct SystemClock final : Clock {
  std::int64_t monotonic_us() const override { return read_us(CLOCK_MONOTONIC); }
  std::int64_t wall_ms() const override { return read_us(CLOCK_REALTIME) / 1000; }
};

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace holdfast
