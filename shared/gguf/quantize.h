#pragma once
// Quantises float32 rows: the inverse of dequantize_row, with the least squared error that a
// bounded search finds. Own method; the layouts are those of dequantize*.cpp.

#include <cstdint>

#include "shared/gguf/gguf.h"

namespace holdfast::gguf {

/// Returns true if quantize_row writes `type`.
bool can_quantize(TensorType type);

/// Writes blocks of n elements (a multiple of the block size, CHECKed) to `out` (row_bytes,
/// unaligned). Each block depends on its own elements alone and on no instruction set: the same
/// bytes on every machine. kUnsupported for a type that is read only; kFileInvalid for a NaN, an
/// infinity or a magnitude that the type cannot hold. Pure, thread-safe. Cost: some 50 to 300 ns a
/// weight.
Result<void> quantize_row(TensorType type, const float* x, std::uint64_t n, void* out);

}  // namespace holdfast::gguf
