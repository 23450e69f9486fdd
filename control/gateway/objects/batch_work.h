#pragma once
// Work on one batch, from wherever it was left, on the calling thread.

#include <cstdint>
#include <functional>
#include <string>

#include "control/gateway/common/context.h"

namespace holdfast::gateway {

/// Bounds of the work on one batch. A lease that is not renewed for `lease_ms` lets another worker
/// take the batch.
struct BatchLimits {
  int lines = 64;  // in flight
  std::int64_t lease_ms = 3'000;
};

/// Works on batch `id` until it has ended. `worker` names the holder of the lease; `stopping` is
/// polled. Returns false if another worker has the batch, if it ended meanwhile, if it is
/// quarantined, or if it cannot go on now (the daemon is unreachable). Blocks; must not run on the
/// SDK's thread.
bool work_on_batch(Context& context, const std::string& id, const std::string& worker,
                   BatchLimits limits, std::function<bool()> stopping);

}  // namespace holdfast::gateway
