#pragma once
// Sixteen float lanes in two 256-bit registers. Include inside the target region, after
// <immintrin.h>. scalar/vec.h says what each function means. avxvnni/vec.h has all of this in its
// own namespace, except the sums of products.

#ifndef HOLDFAST_YMM_FAMILY
#define HOLDFAST_YMM_FAMILY avx2
#endif

namespace holdfast::cpu::HOLDFAST_YMM_FAMILY {

#define HOLDFAST_INLINE inline __attribute__((always_inline))
#define HOLDFAST_INLINE_METHOD inline __attribute__((always_inline))
#if defined(__clang__)
#define HOLDFAST_UNROLL _Pragma("unroll")
#else
#define HOLDFAST_UNROLL _Pragma("GCC unroll 16")
#endif

/// Floats: lanes 0 to 7, and 8 to 15. scalar/vec.h has the meaning.
struct V {
  __m256 lo, hi;
};
/// Words: 0 to 7, and 8 to 15. scalar/vec.h has the meaning.
struct I {
  __m256i lo, hi;
};
/// A table of floats in memory. scalar/vec.h has the meaning.
struct Table {
  const float* values;
};

inline constexpr int kFusedPanels = 2;
inline constexpr int kTileRows = 6;
inline constexpr int kTileWide = 1;
inline constexpr int kQueries = 4;
inline constexpr int kPageWide = 1;

/// Arithmetic of floats. scalar/vec.h has the meaning.
HOLDFAST_INLINE float fma1(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
HOLDFAST_INLINE V zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
HOLDFAST_INLINE V set1(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
HOLDFAST_INLINE V load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
HOLDFAST_INLINE void store(float* p, V v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
HOLDFAST_INLINE V fma(V a, V b, V c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
HOLDFAST_INLINE V add(V a, V b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
HOLDFAST_INLINE V sub(V a, V b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
HOLDFAST_INLINE V mul(V a, V b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
HOLDFAST_INLINE V div(V a, V b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
HOLDFAST_INLINE V max(V a, V b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
HOLDFAST_INLINE V min(V a, V b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
HOLDFAST_INLINE V propagate_nan(V x, V r) {
  return {_mm256_blendv_ps(r.lo, x.lo, _mm256_cmp_ps(x.lo, x.lo, _CMP_UNORD_Q)),
          _mm256_blendv_ps(r.hi, x.hi, _mm256_cmp_ps(x.hi, x.hi, _CMP_UNORD_Q))};
}
HOLDFAST_INLINE V select_less(V a, V b, V yes, V no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
HOLDFAST_INLINE V first_lanes(V v, int n, V other) {
  const __m256i limit = _mm256_set1_epi32(n);
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm256_blendv_ps(other.lo, v.lo, _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, low))),
          _mm256_blendv_ps(other.hi, v.hi, _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, high)))};
}

/// Words and codes. scalar/vec.h has the meaning.
HOLDFAST_INLINE I load_int(const void* p) {
  const __m256i* at = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
}
HOLDFAST_INLINE I bits(V v) {
  return {_mm256_castps_si256(v.lo), _mm256_castps_si256(v.hi)};
}
HOLDFAST_INLINE V floats(I v) {
  return {_mm256_castsi256_ps(v.lo), _mm256_castsi256_ps(v.hi)};
}
HOLDFAST_INLINE I set1_int(std::uint32_t x) {
  const __m256i v = _mm256_set1_epi32(static_cast<int>(x));
  return {v, v};
}
HOLDFAST_INLINE I add_int(I a, I b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
HOLDFAST_INLINE I sub_int(I a, I b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
template <int n>
HOLDFAST_INLINE I shl(I a) {
  if constexpr (n == 0) return a;
  return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
template <int n>
HOLDFAST_INLINE I shr(I a) {
  if constexpr (n == 0) return a;
  return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}
template <int n>
HOLDFAST_INLINE I sar(I a) {
  return {_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}
HOLDFAST_INLINE I and_int(I a, std::uint32_t m) {
  const __m256i v = _mm256_set1_epi32(static_cast<int>(m));
  return {_mm256_and_si256(a.lo, v), _mm256_and_si256(a.hi, v)};
}
HOLDFAST_INLINE V to_float(I a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
template <std::uint32_t from_a>
HOLDFAST_INLINE I mix(I a, I b) {
  const I x = and_int(a, from_a);
  const I y = and_int(b, ~from_a);
  return {_mm256_or_si256(x.lo, y.lo), _mm256_or_si256(x.hi, y.hi)};
}
template <int bits>
HOLDFAST_INLINE I clean(I a) {
  return a;
}
template <int bits>
HOLDFAST_INLINE Table load_table(const float* p) {
  return {p};
}
template <int n>
HOLDFAST_INLINE V look_up(I a, Table t) {
  const I index = shr<n>(a);  // the permute takes 3 bits, bit 3 chooses the half of the table
  const __m256 low = _mm256_loadu_ps(t.values);
  const __m256 high = _mm256_loadu_ps(t.values + 8);
  const I top = shl<28>(index);
  return {_mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index.lo),
                           _mm256_permutevar8x32_ps(high, index.lo), _mm256_castsi256_ps(top.lo)),
          _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index.hi),
                           _mm256_permutevar8x32_ps(high, index.hi), _mm256_castsi256_ps(top.hi))};
}
template <int bits, int n>
HOLDFAST_INLINE V code_float(I a, Table) {
  if constexpr (n + bits == 32) return to_float(shr<n>(a));
  return to_float(and_int(shr<n>(a), (1u << bits) - 1));
}
/// Words that become bytes. scalar/vec.h has the meaning.
HOLDFAST_INLINE I zero_int() {
  return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
HOLDFAST_INLINE void store_int(void* p, I a) {
  __m256i* at = static_cast<__m256i*>(p);
  _mm256_storeu_si256(at, a.lo);
  _mm256_storeu_si256(at + 1, a.hi);
}
HOLDFAST_INLINE I round_int(V v) {
  return {_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi)};
}
HOLDFAST_INLINE void store_bytes(std::int8_t* p, I a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
/// Forces the value to be computed here: the compiler would turn sums of integers into trees, whose
/// leaves do not fit into the registers.
HOLDFAST_INLINE I settled(I a) {
  __asm__("" : "+x"(a.lo), "+x"(a.hi));
  return a;
}
HOLDFAST_INLINE bool finite_lanes(V v) {
  const __m256 infinity = _mm256_set1_ps(__builtin_inff());
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256 lo = _mm256_cmp_ps(_mm256_andnot_ps(sign, v.lo), infinity, _CMP_NLT_UQ);
  const __m256 hi = _mm256_cmp_ps(_mm256_andnot_ps(sign, v.hi), infinity, _CMP_NLT_UQ);
  return _mm256_movemask_ps(_mm256_or_ps(lo, hi)) == 0;
}
#define HOLDFAST_OWN_FOUR_SUMS 1
/// lane_sum of each of four (lanes.inc), each step of the tree for all four at once.
HOLDFAST_INLINE void four_lane_sums(const V (&v)[4], float (&sums)[4]) {
  __m256 eight[4], four[2];
  HOLDFAST_UNROLL for (int i = 0; i < 4; ++i) eight[i] = _mm256_add_ps(v[i].lo, v[i].hi);
  HOLDFAST_UNROLL for (int i = 0; i < 2; ++i) {
    four[i] = _mm256_add_ps(_mm256_permute2f128_ps(eight[2 * i], eight[2 * i + 1], 0x20),
                            _mm256_permute2f128_ps(eight[2 * i], eight[2 * i + 1], 0x31));
  }
  const __m256 two = _mm256_add_ps(_mm256_shuffle_ps(four[0], four[1], 0x44),
                                   _mm256_shuffle_ps(four[0], four[1], 0xee));
  alignas(32) float all[8];
  _mm256_store_ps(all, _mm256_add_ps(two, _mm256_movehdup_ps(two)));
  sums[0] = all[0], sums[1] = all[4], sums[2] = all[2], sums[3] = all[6];
}
HOLDFAST_INLINE void lane_sums_int(I a, I b, std::int32_t (&sums)[2]) {
  const __m256i two = _mm256_hadd_epi32(_mm256_add_epi32(a.lo, a.hi), _mm256_add_epi32(b.lo, b.hi));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), _mm_hadd_epi32(four, four));
}
template <int rows>
inline constexpr int kDotPanels = rows <= 2 ? 2 : 1;  // read together
inline constexpr bool kScarceRegisters = true;
template <class Block, int panels, int rows>
inline constexpr int kDotTogether = 2;  // rows whose sums are in registers at once
inline constexpr int kDotRows = 5;
inline constexpr int kDotWide = 1;
inline constexpr int kDotSeparatePlanesMax = 3;
inline constexpr int kInt8BlocksAtOnce = 1;  // blocks that are encoded together
inline constexpr int kChainsAlone = 5;
HOLDFAST_INLINE I look_up_bytes(const std::uint8_t* table, I codes) {
  const __m256i values = _mm256_load_si256(reinterpret_cast<const __m256i*>(table));
  return {_mm256_shuffle_epi8(values, codes.lo), _mm256_shuffle_epi8(values, codes.hi)};
}
HOLDFAST_INLINE I four_bytes(const std::int8_t* p) {
  int four = 0;
  __builtin_memcpy(&four, p, 4);
  const __m256i v = _mm256_set1_epi32(four);
  return {v, v};
}
#ifndef HOLDFAST_OWN_SUMS
#define HOLDFAST_DOTS_BY_WORDS 1
/// True for products that take 16-bit words where rows are many: with bytes they would need more
/// instructions.
template <int bits, class Block>
inline constexpr bool kDotByWords = Block::kHasLow || bits == 8;
/// 16 words 128 * high + low, the middle two of each four swapped.
HOLDFAST_INLINE void pair_words(const std::int8_t* high, const std::int8_t* low,
                                std::int16_t* out) {
  const __m256i h = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(high)));
  const __m256i l = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low)));
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  const __m256i words = _mm256_add_epi16(_mm256_slli_epi16(h, 7), l);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_shuffle_epi8(words, order));
}
HOLDFAST_INLINE I two_words(const std::int16_t* p) {
  int two = 0;
  __builtin_memcpy(&two, p, 4);
  const __m256i v = _mm256_set1_epi32(two);
  return {v, v};
}
/// Bytes 0 and 2, or 1 and 3, of each lane as signed words.
HOLDFAST_INLINE I even_words(I a) {
  return {_mm256_srai_epi16(_mm256_slli_epi16(a.lo, 8), 8),
          _mm256_srai_epi16(_mm256_slli_epi16(a.hi, 8), 8)};
}
HOLDFAST_INLINE I odd_words(I a) {
  return {_mm256_srai_epi16(a.lo, 8), _mm256_srai_epi16(a.hi, 8)};
}
HOLDFAST_INLINE I add_pairs(I t, I a, I b) {
  return settled({_mm256_add_epi32(t.lo, _mm256_madd_epi16(a.lo, b.lo)),
                  _mm256_add_epi32(t.hi, _mm256_madd_epi16(a.hi, b.hi))});
}
// Two products of bytes are added in 16 bits (VPMADDUBSW), so codes of few bits can be summed there
// for some steps; signed ones are split into magnitude and sign.
inline constexpr int kSignedBias = 0;
HOLDFAST_INLINE I signed_codes(I a) {
  return a;
}
template <int bits>
inline constexpr int kDotSmallBatchRows = bits <= 4 ? 4 : 2;  // most rows with weights in registers
template <int bits>
inline constexpr int kDotRun = bits <= 4   ? 8
                               : bits == 5 ? 4
                               : bits == 6 ? 2
                                           : 1;
HOLDFAST_INLINE I dot_begin(I) {
  return zero_int();
}
template <int bits>
HOLDFAST_INLINE I dot_step(I part, I codes, I x) {
  if constexpr (bits == 8) {
    return settled(
        {_mm256_add_epi16(part.lo, _mm256_maddubs_epi16(_mm256_abs_epi8(codes.lo),
                                                        _mm256_sign_epi8(x.lo, codes.lo))),
         _mm256_add_epi16(part.hi, _mm256_maddubs_epi16(_mm256_abs_epi8(codes.hi),
                                                        _mm256_sign_epi8(x.hi, codes.hi)))});
  }
  return settled({_mm256_add_epi16(part.lo, _mm256_maddubs_epi16(codes.lo, x.lo)),
                  _mm256_add_epi16(part.hi, _mm256_maddubs_epi16(codes.hi, x.hi))});
}
HOLDFAST_INLINE I dot_end(I t, I part) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_add_epi32(t.lo, _mm256_madd_epi16(part.lo, ones)),
          _mm256_add_epi32(t.hi, _mm256_madd_epi16(part.hi, ones))};
}
#endif
/// Bytes, halves and other short floats. scalar/vec.h has the meaning.
HOLDFAST_INLINE I widen(const std::uint8_t* p) {
  const __m128i* low = reinterpret_cast<const __m128i*>(p);
  const __m128i* high = reinterpret_cast<const __m128i*>(p + 8);
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(low)), _mm256_cvtepu8_epi32(_mm_loadl_epi64(high))};
}
HOLDFAST_INLINE V signed_bytes(const std::uint8_t* p) {
  const __m128i* low = reinterpret_cast<const __m128i*>(p);
  const __m128i* high = reinterpret_cast<const __m128i*>(p + 8);
  return to_float(
      {_mm256_cvtepi8_epi32(_mm_loadl_epi64(low)), _mm256_cvtepi8_epi32(_mm_loadl_epi64(high))});
}
HOLDFAST_INLINE V unsigned_bytes(const std::uint8_t* p) {
  return to_float(widen(p));
}
HOLDFAST_INLINE V low_nibbles(const std::uint8_t* p) {
  return to_float(and_int(widen(p), 15));
}
HOLDFAST_INLINE V high_nibbles(const std::uint8_t* p) {
  return to_float(shr<4>(widen(p)));
}
HOLDFAST_INLINE V load_half(const void* p) {
  const __m128i* at = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
HOLDFAST_INLINE void store_half(void* p, V v) {
  __m128i* at = static_cast<__m128i*>(p);
  _mm_storeu_si128(at, _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(at + 1, _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HOLDFAST_INLINE std::uint16_t float_to_half(float f) {
  return static_cast<std::uint16_t>(_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/// E4M3: its bits read as a half are a number 256 times smaller, which is exact; 0x7f is NaN.
HOLDFAST_INLINE V load_fp8(const std::uint8_t* p) {
  const __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i size = _mm256_and_si256(x, _mm256_set1_epi16(0x7f));
  const __m256i nan = _mm256_and_si256(_mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x7f)),
                                       _mm256_set1_epi16(0x7e00));
  const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(x, size), 8);
  const __m256i half = _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi16(size, 7), sign), nan);
  return mul({_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
              _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))},
             set1(256));
}
HOLDFAST_INLINE V load_bf16(const void* p) {
  const __m128i* at = static_cast<const __m128i*>(p);
  return floats(shl<16>(I{_mm256_cvtepu16_epi32(_mm_loadu_si128(at)),
                          _mm256_cvtepu16_epi32(_mm_loadu_si128(at + 1))}));
}

}  // namespace holdfast::cpu::HOLDFAST_YMM_FAMILY
