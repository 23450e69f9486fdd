#pragma once
// Types whose weights are one of at most 16 values: codebooks (IQ1 to IQ3), small floats (MXFP4,
// NVFP4), ternary and binary. dequantize_row and packers read them by the same code:
//   weight = d[group] * scale[group] * values[code]
// Every product is exact in float32, so their order does not matter. Source of layouts:
// ggml-common.h (format facts).

#include <cstdint>

#include "shared/gguf/gguf.h"

namespace holdfast::gguf {

/// The properties that all blocks of a type share.
struct CodedTraits {
  int elements;         // of a block
  int group;            // elements that share d and scale
  const float* values;  // [16], entries that no code names are 0
};
/// Returns nullptr for a type of another kind.
const CodedTraits* coded_traits(TensorType type);

/// One block: the scales of its groups and the codes of its elements.
struct CodedBlock {
  float d[16] = {};            // of each group; always a half's value, for MXFP4 a power of two
  std::int8_t scale[16] = {};  // of each group, 1 where the type has none
  std::uint8_t code[256] = {};
};
/// Reads one block at `src` (unaligned, block_bytes long). CHECKs that the type is of this kind.
void read_coded(TensorType type, const std::uint8_t* src, CodedBlock& out);

}  // namespace holdfast::gguf
