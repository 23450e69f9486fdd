#pragma once
// A bound on the memory of this process, enforced by the kernel: beyond it allocations fail, which
// ends one request and not the machine.

#include <cstdint>

#include "shared/base/result.h"

namespace holdfast::gateway {

/// Bounds heap, private mappings and the threads' stacks together (RLIMIT_DATA). Call it before
/// threads start: their stacks get kThreadStackBytes from then on, so that they count for little.
inline constexpr std::size_t kThreadStackBytes = 1 << 20;
Result<void> bound_memory(std::int64_t bytes);

}  // namespace holdfast::gateway
