#pragma once
// The model registry: one row a model, its state machine, and what placement may reserve.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/core/breaker.h"
#include "control/core/config.h"
#include "control/core/planner.h"
#include "control/core/rows.h"
#include "control/core/transitions.h"
#include "control/core/workers.h"

namespace holdfast::core {

/// The finding whether a model can be served, and if not, why.
enum class Verdict : std::uint8_t { kLoaded, kFits, kNoFreeMemory, kTooLarge, kClosed };
std::string_view verdict_name(Verdict verdict);

/// The KV pages that a load must have: those of one context at least, or all that are requested.
enum class Pages { kAtLeastAContext, kAll };

/// Placement's finding on one connected worker for one model.
struct DeviceVerdict {
  std::string worker_key;
  std::string device;
  PeerId peer = 0;
  Verdict verdict = Verdict::kFits;
  Pages pages = Pages::kAtLeastAContext;
  std::int64_t needed = 0;  // bytes, for `pages`
  std::int64_t free = 0;
  std::int64_t may_give = 0;         // with nothing else there
  std::int64_t largest_context = 0;  // tokens that the worker could give
  std::int64_t loads = 0;            // on this worker
  bool fits_after_drain = false;     // models that make room are on their way out
  bool bound_only = false;           // a worker for requests bound to its numerics class alone
  bool lacks_file = false;           // it would fit, but its node does not have the file
  bool fetches = false;              // that node can fetch it, at a cost that is told
  Candidate candidate;
  PlanCost cost;
  std::string why;
};

/// A memory pool (holdfast::MemoryPool) as it was last reported.
struct Pool {
  MemoryPool last;
  std::string host;                   // of the reporter
  std::int64_t at_us = 0;             // when it was measured, by its machine's clock
  std::int64_t reported_us = 0;       // by ours
  std::int64_t pressed_since_us = 0;  // loads wait until it has room again; 0 = it has
  std::int64_t evict_at_us = 0;       // no idle model is unloaded before
};

/// Stands for the memory of a worker that does not know its own.
inline constexpr std::int64_t kUnknownMemory = std::numeric_limits<std::int64_t>::max() / 4;

/// Memory of a worker that a load may still reserve, in bytes.
struct MemoryHeadroom {
  std::int64_t may_give = 0;  // with no loads of ours
  std::int64_t free = 0;
  bool pressed = false;      // one of its pools is short: nothing is loaded
  std::int64_t sharing = 0;  // other workers that take from the same pools
};

/// A registered model as the daemon has it in memory.
struct Model {
  ModelRow row;
  std::string identity;  // of its file (huggingface::Stamp); if it differs, the hash is checked
  std::map<std::string, std::int32_t> failed_on;  // failed loads in a row, by worker key
  std::int32_t failures = 0;                      // failed loads in a row
  std::int64_t retry_at_us = 0;                   // no load before
  Breaker breaker;
  bool pinned = false;                 // never unloaded to make room
  std::vector<std::string> displaced;  // models that made room for its load in progress
  std::vector<DeviceVerdict> devices;  // as placement saw them last, the best first
  std::int64_t survey_at_us = 0;       // not looked at before, while no load can begin
  std::int64_t switch_since_us = 0;    // requested or lost, and not ready since; 0: nobody waits
  std::int64_t unfit_since_us = 0;     // no connected device can hold it; 0 = one can
  /// How long it stays after its last request, as a client asked; negative: without end. nullopt:
  /// as models.idle_unload_s says.
  std::optional<std::int64_t> keep_alive_ms;
  std::int64_t idle_timer_us = 0;  // when it will be idle for too long, if a timer is set
  double service_ms = 0;           // mean time of a choice on a worker, recent; 0 = unknown
};

/// Returns true for the states of a load that holds nothing any more.
bool has_ended(ModelState state);

/// Returns true if the model is requested and no worker has it yet.
bool waits_for_placement(const Model& model);

/// Returns true if the model makes vectors alone (its file has no causal mask).
bool is_encoder(const ModelRow& row);

/// The longest context of which one sequence fits `bytes`, at most the requested one; 0 if none
/// does.
std::int64_t largest_context(const ModelRow& row, std::int64_t bytes);

/// Pages and bytes that a load of a model reserves on a device.
struct Envelope {
  std::int64_t pages = 0;
  std::int64_t bytes = 0;
};
/// Fits as many pages as possible into `free_bytes`, at most the requested number; nullopt if too
/// few fit. `needed` is set to the least number of bytes, unless it is null.
std::optional<Envelope> fit_envelope(const ModelRow& row, std::int64_t free_bytes,
                                     Pages pages_taken, std::int64_t* needed);

}  // namespace holdfast::core
