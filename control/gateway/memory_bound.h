#pragma once
// A bound on the memory of this process, kept by the kernel: beyond it allocations fail, which ends
// one request, not the machine.

#include <cstdint>

#include "shared/base/result.h"

namespace holdfast::gateway {

/// Heap, private mappings and the threads' stacks, all together (RLIMIT_DATA). Before there are
/// threads: their stacks get `kThreadStackBytes` from now on, so that they count for little.
inline constexpr std::size_t kThreadStackBytes = 1 << 20;
Result<void> bound_memory(std::int64_t bytes);

}  // namespace holdfast::gateway
