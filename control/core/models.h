#pragma once
// The registry: one row a model, its state machine, and what placement may reserve.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/core/breaker.h"
#include "control/core/config.h"
#include "control/core/rows.h"
#include "control/core/transitions.h"
#include "control/core/workers.h"

namespace holdfast::core {

enum class Verdict : std::uint8_t { kLoaded, kFits, kNoRoom, kTooLarge, kClosed };
std::string_view verdict_name(Verdict verdict);

/// How many of the wished pages a load must have.
enum class Pages { kAtLeastAContext, kAll };

/// What placement found of one connected worker for one model.
struct DeviceVerdict {
  std::string worker_key;
  std::string device;
  PeerId peer = 0;
  Verdict verdict = Verdict::kFits;
  Pages pages = Pages::kAtLeastAContext;
  std::int64_t needed = 0;  // bytes, with as many pages
  std::int64_t free = 0;
  std::int64_t may_give = 0;         // if nothing else were there
  std::int64_t largest_context = 0;  // tokens that it could give
  std::int64_t loads = 0;            // that it has
  bool room_soon = false;            // what makes room is on its way out
  std::string why;
};

/// A memory (holdfast::MemoryPool) as it was heard of last.
struct Pool {
  MemoryPool last;
  std::string host;                   // of who told
  std::int64_t at_us = 0;             // when it was measured, by its machine's clock
  std::int64_t heard_us = 0;          // by ours
  std::int64_t pressed_since_us = 0;  // loads wait until it has room again; 0 = it has
  std::int64_t evict_at_us = 0;       // no idle model is unloaded before
};

/// Stands for the memory of a worker that does not know it.
inline constexpr std::int64_t kUnknownMemory = std::numeric_limits<std::int64_t>::max() / 4;

/// Room of a worker for a load.
struct Room {
  std::int64_t may_give = 0;  // if nothing of ours were there
  std::int64_t free = 0;
  bool pressed = false;      // one of its memories is short: nothing is loaded
  std::int64_t sharing = 0;  // other workers that take from the same memories
};

struct Model {
  ModelRow row;
  std::string identity;  // of its file (hf::Stamp); another one has its hash looked at
  std::map<std::string, std::int32_t> failed_on;  // failed loads in a row, by worker key
  std::int32_t failures = 0;                      // failed loads in a row
  std::int64_t retry_at_us = 0;                   // no load before
  Breaker breaker;
  bool pinned = false;                 // never unloaded to make room
  std::vector<std::string> displaced;  // models that made room for its load in progress
  std::vector<DeviceVerdict> devices;  // as placement saw them last, the best first
  std::int64_t switch_since_us = 0;    // wanted or lost, and not ready since; 0: nobody waits
  std::int64_t unfit_since_us = 0;     // no connected device can hold it; 0 = one can
  double service_ms = 0;               // mean time of a choice on a worker, recent; 0 = unknown
};

/// Whether it makes vectors alone (its file has no causal mask).
bool is_encoder(const ModelRow& row);

/// The longest context of which one sequence fits `bytes`, at most the wished one; 0 if none does.
std::int64_t largest_context(const ModelRow& row, std::int64_t bytes);

/// What a load of this model reserves at least and at most on a device.
struct Envelope {
  std::int64_t pages = 0;
  std::int64_t bytes = 0;
};
/// The most pages that fit `free_bytes`, at most the wished number; nullopt if too few fit.
/// `needed` is set to the least number of bytes, unless it is null.
std::optional<Envelope> fit_envelope(const ModelRow& row, std::int64_t free_bytes,
                                     Pages pages_taken, std::int64_t* needed);

}  // namespace holdfast::core
