#pragma once
// Sixteen float lanes as avx2 has them, in a namespace of their own, and sums of products by
// AVX-VNNI: what takes avx2 two instructions, or five for bytes of 8 bits, takes one. Include
// inside the target region, after <immintrin.h>. See scalar/vec.h for what each function means.

#define HF_YMM_FAMILY avxvnni
#define HF_OWN_SUMS 1
#include "worker/backend/cpu/avx2/vec.h"

namespace holdfast::cpu::avxvnni {

#define HF_DOTS_BY_WORDS 0
inline constexpr int kSignedBias = 128;  // VPDPBUSD takes unsigned codes
HF_INLINE I signed_codes(I a) {
  const __m256i bias = _mm256_set1_epi8(-128);
  return {_mm256_xor_si256(a.lo, bias), _mm256_xor_si256(a.hi, bias)};
}
template <int bits>
inline constexpr int kDotFewRows = 8;  // most with weights in registers
template <int bits>
inline constexpr int kDotRun = 8;
HF_INLINE I dot_begin(I t) {
  return t;
}
template <int bits>
HF_INLINE I dot_step(I part, I codes, I x) {
  return settled({_mm256_dpbusd_avx_epi32(part.lo, codes.lo, x.lo),
                  _mm256_dpbusd_avx_epi32(part.hi, codes.hi, x.hi)});
}
HF_INLINE I dot_end(I, I part) {
  return part;
}

}  // namespace holdfast::cpu::avxvnni
