#pragma once
// Block formats of quantised tensors and their exact float32 values: the reference for kernels,
// packers, `convert` and tests. Source of layouts: ggml-common.h (format facts).

#include <cstdint>

#include "shared/gguf/gguf.h"

namespace holdfast::gguf {

/// Returns the bytes of a row of n elements; nullopt if n is not a multiple of the block or
/// overflows.
std::optional<std::uint64_t> row_bytes(TensorType type, std::uint64_t n);

/// Returns true if dequantize_row reads `type`: all but integers, F64 and types of activations.
bool can_dequantize(TensorType type);

/// out[n] = the float32 values of n elements at `src` (n a multiple of the block size, CHECKed).
/// kUnsupported for types without a float meaning. Pure, thread-safe.
Result<void> dequantize_row(TensorType type, const void* src, float* out, std::uint64_t n);

/// IEEE half and bfloat16 conversions: exact, round to nearest even, with subnormals.
float half_to_float(std::uint16_t h);
std::uint16_t float_to_half(float f);
float bf16_to_float(std::uint16_t b);
std::uint16_t float_to_bf16(float f);

}  // namespace holdfast::gguf
