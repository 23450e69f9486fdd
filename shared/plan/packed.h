#pragma once
// Bytes of weights that a backend has packed.

#include <cstdint>

#include "shared/gguf/gguf.h"

namespace holdfast::plan {

/// Returns the bytes of a block of `type` in memory: those of the file, but scales of six bits
/// become bytes (Q3_K, Q4_K, Q5_K, IQ4_XS: 1 to 4 % more), and codebooks, small floats and ternary
/// weights become codes of two or four bits with byte scales. tests/kernels compares it with the
/// CPU's layouts.
std::uint32_t packed_block_bytes(gguf::TensorType type);

}  // namespace holdfast::plan
