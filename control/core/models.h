#pragma once
// The registry: one row a model, its state machine, and what placement may reserve.

#include <cstdint>
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

struct Model {
  ModelRow row;
  std::int32_t failures = 0;     // failed loads in a row
  std::int64_t retry_at_us = 0;  // no load before
  Breaker breaker;
  bool pinned = false;                 // never unloaded to make room
  std::vector<std::string> displaced;  // models that made room for its load in progress
  double service_ms = 0;               // mean time of a choice on a worker, recent; 0 = unknown
};

/// What a load of this model reserves at least and at most on a device.
struct Envelope {
  std::int64_t pages = 0;
  std::int64_t bytes = 0;
};
/// The most pages that fit `free_bytes`: at least one whole context, at most the wished number.
/// nullopt if not even that fits; `needed` then says the least number of bytes.
std::optional<Envelope> fit_envelope(const ModelRow& row, std::int64_t free_bytes,
                                     std::int64_t* needed);

}  // namespace holdfast::core
