#pragma once
// Time is an argument: only adapters and main() own a Clock, pure code gets numbers.

#include <cstdint>

namespace holdfast {

/// Both readings of one instant. Deadlines use the monotonic clock; wall time is for people and for
/// data that outlives a process.
struct Clock {
  virtual ~Clock() = default;
  virtual std::int64_t monotonic_us() const = 0;  // CLOCK_MONOTONIC, microseconds
  virtual std::int64_t wall_ms() const = 0;       // Unix time, milliseconds
};

/// Returns the machine's clocks. Thread-safe; lives for the whole process.
const Clock& system_clock();

/// A clock for tests, which moves only when told to.
struct ManualClock final : Clock {
  std::int64_t now_us = 0;
  std::int64_t wall_base_ms = 1'700'000'000'000;
  std::int64_t monotonic_us() const override { return now_us; }
  std::int64_t wall_ms() const override { return wall_base_ms + now_us / 1000; }
};

}  // namespace holdfast
