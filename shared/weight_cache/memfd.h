#pragma once
// Memory of a cache entry, without a name in the file system (memfd), written once, then sealed.

#include <cstdint>

#include "shared/base/result.h"

namespace holdfast::weight_cache {

/// Returns a descriptor of `bytes` zero bytes, which the caller maps, fills and closes.
/// kMemoryExhausted or kUnsupported (no memfd here).
Result<int> create_memfd(std::uint64_t bytes);

/// Fixes the size and forbids new writable mappings; the caller makes its own read-only first. The
/// server accepts sealed memory alone. False if the kernel cannot (before Linux 5.1).
bool seal_memfd(int fd);
/// Returns true if `fd` is a sealed memfd of this size.
bool is_sealed_memfd(int fd, std::uint64_t bytes);

}  // namespace holdfast::weight_cache
