#pragma once
// Core: the configuration in effect, the step in progress, timers, counters and other things that
// every component of the machine uses.

#include <cstdint>
#include <set>
#include <string>

#include "control/core/config.h"
#include "control/core/effects.h"
#include "control/core/events.h"
#include "control/core/fence_allocator.h"
#include "control/core/stats.h"
#include "control/core/timers.h"
#include "control/core/types.h"

namespace holdfast::core {

/// Counters since the start; names are those of the metrics.
struct Counters {
  std::uint64_t accepted = 0, duplicates = 0, refused = 0, succeeded = 0, failed = 0, cancelled = 0,
                expired = 0;
  std::uint64_t tokens = 0, duplicate_tokens = 0, stale_events = 0, violations = 0;
  std::uint64_t idle_unloads = 0;     // models that nobody had used for their time
  std::uint64_t envelope_drifts = 0;  // loads that took more or less than was reserved
  std::uint64_t memory_pressures = 0, pressure_unloads = 0;
  std::uint64_t dispatched = 0, resumed = 0, adopted = 0, returned = 0, requeued = 0, preempted = 0,
                workers_lost = 0, retired = 0, breakers_opened = 0;
  std::uint64_t suspicions = 0, false_suspicions = 0;        // of workers; those that spoke again
  std::uint64_t node_suspicions = 0, node_false_alarms = 0;  // by datagrams; that came again
  std::uint64_t second_attempts = 0;  // begun because the first one's worker was suspect
  std::uint64_t recovered = 0;        // live requests that this process found in the database
  std::uint64_t replayed_tokens = 0;  // committed before, given to a worker again to go on from
};

/// State that all components of one machine share. Each belongs to none of them alone.
struct Core {
  Config config;  // in effect
  std::int64_t config_version = 0;
  Now now;                 // of the step in progress, or of the last one
  Effects* out = nullptr;  // of the step in progress
  FenceAllocator fences;
  Timers timers;
  Counters counters;
  Stats stats;
  std::int64_t clock_offset_ms = 0;  // steady time for deadlines, see Boot
  bool paused = false;               // the queue, by an operator
  bool draining = false;
  bool storage_low = false;
  bool standby_missing = false;
  // Flags that the step looks at before it ends.
  bool want_dispatch = false;             // of every model that has a queue
  std::set<std::string> dispatch_models;  // of these alone: their queue or loads have changed
  bool want_placement = false;
  /// Models of which a load became idle, or the queue empty: placement looks only while a model
  /// waits, as one that serves moves no other.
  std::set<std::string> usage_changed;
  bool want_aliases = false;  // a model became ready or failed: aliases may wait for it

  std::int64_t steady_ms() const { return now.mono_us / 1000 + clock_offset_ms; }
  /// Starts the clock of deadlines: steps of the wall clock, before or between processes, must not
  /// move them.
  void start_clock(const Boot& event);

  /// Answers an operator verb with its refusal.
  void op_refused(PeerId peer, std::uint64_t tag, wire::Refusal refusal);
  /// Answers an operator verb that was done; `key` is what it was about.
  void op_done(PeerId peer, std::uint64_t tag, std::string verb, std::string key);
};

}  // namespace holdfast::core
