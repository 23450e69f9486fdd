#pragma once
// Pairs of bfloat16s by the instructions of AVX512_BF16. Include inside the target region, after
// avx512/vec.h.
//
// Numeric fact (Intel's manual, and compared bit for bit with emulated_pairs.h at start; AMD's Zen
// 5 does the same): VDPBF16PS adds two products to a float, the second pair's first, each by a
// fused multiply-add that rounds to nearest; subnormals, intermediate ones too, count as zero,
// whatever MXCSR says.

namespace holdfast::cpu::avx512bf16 {

using avx512::I;
using avx512::V;

/// VDPBF16PS and its rounding as the processor does them.
struct HardPairs {
  /// Words 0 to 15 are `low` as bfloat16, 16 to 31 `high`: to the nearest even, subnormals to zero.
  static HOLDFAST_INLINE_METHOD I round(V low, V high) {
    return __builtin_bit_cast(I, _mm512_cvtne2ps_pbh(high, low));
  }
  /// sum + a1 * b1 + a0 * b0, in this order, in each lane.
  static HOLDFAST_INLINE_METHOD V dot(V sum, I a, I b) {
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
  }
};

}  // namespace holdfast::cpu::avx512bf16
