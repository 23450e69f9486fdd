#pragma once
// Decodes blocks of the file into codes and scales, one format at a time; the packer arranges them
// in the panels' order. Source of layouts: ggml-common.h (format facts).

#include <cstdint>

#include "worker/weights/layout.h"

namespace holdfast::cpu {

/// One block of one row. Codes are as in Layout (offset not yet subtracted; Q8_0: signed bytes).
struct Codes {
  std::uint16_t d[4] = {};  // half (or bfloat16, see Layout), several if each group has its own
  std::uint16_t m = 0;      // half: m or dmin
  std::uint8_t scale[16] = {};
  std::uint8_t minimum[16] = {};
  std::uint8_t code[256] = {};
};

/// Reads one block of a quantised type at `src` (unaligned). Groups of scales are the layout's; one
/// block of a type may hold several blocks of the layout.
void read_block(gguf::TensorType type, const std::uint8_t* src, Codes& out);

/// True unless one of the block's halves is infinite or NaN.
bool is_finite(Format format, const Codes& codes);

}  // namespace holdfast::cpu
