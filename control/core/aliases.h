#pragma once
// Aliases and their canaries in memory.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "control/core/alias.h"
#include "control/core/canary.h"
#include "control/core/types.h"

namespace holdfast::core {

/// The side of its alias that a request belongs to.
enum class Side : std::uint8_t { kStable, kCanary };

/// Counters of requests since the start, by alias and side; names are those of the metrics.
struct SideCounters {
  std::uint64_t accepted = 0, refused = 0, succeeded = 0, failed = 0, cancelled = 0, expired = 0,
                rerouted = 0;
};

/// A canary that has not ended.
struct Canary {
  CanaryRow row;
  std::array<SideStats, 2> stats;                       // of the window, by Side
  std::array<std::map<Seq, std::int64_t>, 2> awaiting;  // without a token: since when, monotonic us
  std::int64_t window_started_ms = 0;                   // wall
  std::int64_t window_ends_us = 0;                      // monotonic
  std::int64_t sample_us = 0;                           // next sample of the queues, monotonic us
};

struct Alias {
  AliasRow row;
  std::optional<Canary> canary;
  std::int64_t waits_until_us = 0;  // deadline of `pending` or of a canary that loads
  std::array<SideCounters, 2> counters;
};

/// The model that a request goes to, by its own name or by an alias.
struct Route {
  std::string model;
  std::string alias;        // empty: none was asked for
  std::uint64_t key = 0;    // route_key()
  std::int64_t canary = 0;  // run of a canary; 0 = none
  Side side() const { return canary == 0 ? Side::kStable : Side::kCanary; }
};

}  // namespace holdfast::core
