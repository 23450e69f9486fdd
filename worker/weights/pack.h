#pragma once
// Packs weights of the file into panels.

#include <cstdint>

#include "worker/weights/layout.h"

namespace holdfast::cpu {

/// Packs panels [p0, p1) of `out` (geometry and memory set) from the file's rows of `type` (whose
/// format_of is out.format) at `src`, each `row_bytes` long. Touches only those panels, so threads
/// pack disjoint ranges in parallel and own the pages that they touch first. Returns the first row
/// that holds a NaN or infinity, or -1.
std::int64_t pack_panels(const PackedMatrix& out, gguf::TensorType type, const std::uint8_t* src,
                         std::size_t row_bytes, std::int64_t p0, std::int64_t p1);

}  // namespace holdfast::cpu
