#pragma once
// An image: memory without a name in the file system (memfd), written once, then sealed.

#include <cstdint>

#include "shared/base/result.h"

namespace holdfast::images {

/// A descriptor of `bytes` zero bytes, for the caller to map, fill and close. kMemoryExhausted or
/// kUnsupported (no memfd here).
Result<int> make_image(std::uint64_t bytes);

/// Its size is fixed and no new mapping can write; the caller makes its own read-only first. From
/// then on a keeper takes it. False if the kernel cannot (before Linux 5.1).
bool seal_image(int fd);
/// Whether `fd` is a sealed image of this size.
bool is_sealed_image(int fd, std::uint64_t bytes);

}  // namespace holdfast::images
