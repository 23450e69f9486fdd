#pragma once
// The work on one batch, from wherever it was left, on the thread that calls it.

#include <cstdint>
#include <functional>
#include <string>

#include "control/gateway/router.h"

namespace holdfast::gateway {

struct BatchLimits {
  int lines = 64;  // in flight
  std::int64_t lease_ms = 3'000;
};

/// `worker` names who holds the lease; `stopping` is looked at now and then. False: somebody else
/// works on it, it has ended meanwhile, or it cannot go on now (the daemon is away).
bool work_on_batch(Context& context, const std::string& id, const std::string& worker,
                   BatchLimits limits, std::function<bool()> stopping);

}  // namespace holdfast::gateway
