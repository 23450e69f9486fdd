#pragma once
// The sixteen float lanes of avx2 in a namespace of their own, with sums of products by AVX-VNNI:
// one instruction where avx2 takes two, or five for bytes of 8 bits. Include inside the target
// region, after <immintrin.h>. scalar/vec.h says what each function means.

#define HOLDFAST_YMM_FAMILY avxvnni
#define HOLDFAST_OWN_SUMS 1
#include "worker/backend/cpu/avx2/vec.h"

namespace holdfast::cpu::avxvnni {

#define HOLDFAST_DOTS_BY_WORDS 0
inline constexpr int kSignedBias = 128;  // VPDPBUSD takes unsigned codes
/// Codes of 8 bits, kSignedBias added. scalar/vec.h has the meaning.
HOLDFAST_INLINE I signed_codes(I a) {
  const __m256i bias = _mm256_set1_epi8(-128);
  return {_mm256_xor_si256(a.lo, bias), _mm256_xor_si256(a.hi, bias)};
}
template <int bits>
inline constexpr int kDotSmallBatchRows = 8;  // most rows with weights in registers
template <int bits>
inline constexpr int kDotRun = 8;
/// Products of bytes. scalar/vec.h has the meaning.
HOLDFAST_INLINE I dot_begin(I t) {
  return t;
}
template <int bits>
HOLDFAST_INLINE I dot_step(I part, I codes, I x) {
  return settled({_mm256_dpbusd_avx_epi32(part.lo, codes.lo, x.lo),
                  _mm256_dpbusd_avx_epi32(part.hi, codes.hi, x.hi)});
}
HOLDFAST_INLINE I dot_end(I, I part) {
  return part;
}

}  // namespace holdfast::cpu::avxvnni
