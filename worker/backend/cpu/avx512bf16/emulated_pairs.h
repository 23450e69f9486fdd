#pragma once
// The operations of pairs.h by other instructions: the reference of the family avx512bf16, for
// tests on any machine and for the check at start. Include inside a target region with AVX-512,
// after avx512/vec.h.

namespace holdfast::cpu::avx512bf16 {

using avx512::I;
using avx512::V;

/// Treats subnormals as zero, as inputs and as results, as long as it lives.
class NoSubnormals {
 public:
  NoSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(0x9fc0); }  // no traps
  ~NoSubnormals() { _mm_setcsr(before_); }
  NoSubnormals(const NoSubnormals&) = delete;
  NoSubnormals& operator=(const NoSubnormals&) = delete;

 private:
  unsigned before_;
};

/// VDPBF16PS and its rounding by AVX-512, for processors without them: the same bits.
struct EmulatedPairs {
  static I round(V low, V high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(round_half(low)), round_half(high), 1);
  }
  static V dot(V sum, I a, I b) {
    const NoSubnormals mode;
    const V odd = avx512::fma(avx512::floats(avx512::and_int(a, 0xffff0000u)),
                              avx512::floats(avx512::and_int(b, 0xffff0000u)), settled(sum));
    return settled(
        avx512::fma(avx512::floats(avx512::shl<16>(a)), avx512::floats(avx512::shl<16>(b)), odd));
  }

 private:
  /// A value that the compiler does not move past a change of the mode.
  static V settled(V v) {
    __asm__ volatile("" : "+v"(v) : : "memory");
    return v;
  }
  static __m256i round_half(V v) {
    const I u = avx512::bits(v);
    const I up = avx512::add_int(avx512::set1_int(0x7fff), avx512::and_int(avx512::shr<16>(u), 1));
    const I rounded = avx512::shr<16>(avx512::add_int(u, up));
    const I sign = avx512::shl<15>(avx512::shr<31>(u));
    const I quiet = _mm512_or_si512(avx512::shr<16>(u), avx512::set1_int(0x40));
    const __mmask16 tiny = _mm512_testn_epi32_mask(u, avx512::set1_int(0x7f800000));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    I r = _mm512_mask_mov_epi32(rounded, tiny, sign);
    r = _mm512_mask_mov_epi32(r, nan, quiet);
    return _mm512_cvtepi32_epi16(r);
  }
};

}  // namespace holdfast::cpu::avx512bf16
