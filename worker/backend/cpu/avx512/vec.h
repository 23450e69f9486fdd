#pragma once
// Sixteen float lanes in one 512-bit register. Include inside the target region, after
// <immintrin.h>. scalar/vec.h says what each function means.

namespace holdfast::cpu::avx512 {

#define HOLDFAST_INLINE inline __attribute__((always_inline))
#define HOLDFAST_INLINE_METHOD inline __attribute__((always_inline))
#if defined(__clang__)
#define HOLDFAST_UNROLL _Pragma("unroll")
#else
#define HOLDFAST_UNROLL _Pragma("GCC unroll 16")
#endif

using V = __m512;
using I = __m512i;
/// A table of floats in two registers. scalar/vec.h has the meaning.
struct Table {
  __m512 low, high;  // entries 0..15, 16..31
};

inline constexpr int kFusedPanels = 4;
inline constexpr int kTileRows = 12;
inline constexpr int kTileWide = 2;
inline constexpr int kQueries = 8;
inline constexpr int kPageWide = 2;

/// Arithmetic of floats. scalar/vec.h has the meaning.
HOLDFAST_INLINE float fma1(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
HOLDFAST_INLINE V zero() {
  return _mm512_setzero_ps();
}
HOLDFAST_INLINE V set1(float x) {
  return _mm512_set1_ps(x);
}
HOLDFAST_INLINE V load(const float* p) {
  return _mm512_loadu_ps(p);
}
HOLDFAST_INLINE void store(float* p, V v) {
  _mm512_storeu_ps(p, v);
}
HOLDFAST_INLINE V fma(V a, V b, V c) {
  return _mm512_fmadd_ps(a, b, c);
}
HOLDFAST_INLINE V add(V a, V b) {
  return _mm512_add_ps(a, b);
}
HOLDFAST_INLINE V sub(V a, V b) {
  return _mm512_sub_ps(a, b);
}
HOLDFAST_INLINE V mul(V a, V b) {
  return _mm512_mul_ps(a, b);
}
HOLDFAST_INLINE V div(V a, V b) {
  return _mm512_div_ps(a, b);
}
HOLDFAST_INLINE V max(V a, V b) {
  return _mm512_max_ps(a, b);
}
HOLDFAST_INLINE V min(V a, V b) {
  return _mm512_min_ps(a, b);
}
HOLDFAST_INLINE V propagate_nan(V x, V r) {
  return _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}
HOLDFAST_INLINE V select_less(V a, V b, V yes, V no) {
  return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), yes);
}
HOLDFAST_INLINE V first_lanes(V v, int n, V other) {
  return _mm512_mask_mov_ps(other, static_cast<__mmask16>(n >= 16 ? 0xffff : (1 << n) - 1), v);
}

#define HOLDFAST_OWN_LANE_SUMS 1
#define HOLDFAST_OWN_FOUR_SUMS 1
/// The tree of lanes.inc, without memory in between.
template <class F>
HOLDFAST_INLINE float fold_lanes(V v, F f) {
  const __m256 eight = f(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = f(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = f(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(f(two, _mm_movehdup_ps(two)));
}
struct AddLanes {
  HOLDFAST_INLINE_METHOD __m256 operator()(__m256 a, __m256 b) const { return _mm256_add_ps(a, b); }
  HOLDFAST_INLINE_METHOD __m128 operator()(__m128 a, __m128 b) const { return _mm_add_ps(a, b); }
};
/// The greater ones of two halves, for fold_lanes(); AddLanes their sums.
struct MaxLanes {
  HOLDFAST_INLINE_METHOD __m256 operator()(__m256 a, __m256 b) const { return _mm256_max_ps(a, b); }
  HOLDFAST_INLINE_METHOD __m128 operator()(__m128 a, __m128 b) const { return _mm_max_ps(a, b); }
};
/// Sum and maximum of all lanes. lanes.inc has the meaning.
HOLDFAST_INLINE float lane_sum(V v) {
  return fold_lanes(v, AddLanes());
}
HOLDFAST_INLINE float lane_max(V v) {
  return fold_lanes(v, MaxLanes());
}
/// lane_sum of each of four: each step of the tree for all four at once, halves of two, then
/// quarters of four.
HOLDFAST_INLINE void four_lane_sums(const V (&v)[4], float (&sums)[4]) {
  V half[2];
  HOLDFAST_UNROLL for (int i = 0; i < 2; ++i) {
    half[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x44),
                            _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xee));
  }
  const V quarter = _mm512_add_ps(_mm512_shuffle_f32x4(half[0], half[1], 0x88),
                                  _mm512_shuffle_f32x4(half[0], half[1], 0xdd));
  const V two = _mm512_add_ps(quarter, _mm512_shuffle_ps(quarter, quarter, 0xee));
  alignas(64) float all[16];
  _mm512_store_ps(all, _mm512_add_ps(two, _mm512_movehdup_ps(two)));
  HOLDFAST_UNROLL for (int i = 0; i < 4; ++i) sums[i] = all[4 * i];
}

#define HOLDFAST_OWN_SCALE 1
/// scale_below of lanes.inc: VSCALEFPS rounds once too.
HOLDFAST_INLINE V scale_below(V p, V shifted, V c) {
  const V n = _mm512_sub_ps(shifted, _mm512_set1_ps(0x1.8p23f));
  const __mmask16 some = _mm512_cmp_ps_mask(c, _mm512_set1_ps(-104.0f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(some, p, n);
}

/// Words and codes. scalar/vec.h has the meaning.
HOLDFAST_INLINE I load_int(const void* p) {
  return _mm512_loadu_si512(p);
}
HOLDFAST_INLINE I bits(V v) {
  return _mm512_castps_si512(v);
}
HOLDFAST_INLINE V floats(I v) {
  return _mm512_castsi512_ps(v);
}
HOLDFAST_INLINE I set1_int(std::uint32_t x) {
  return _mm512_set1_epi32(static_cast<int>(x));
}
HOLDFAST_INLINE I add_int(I a, I b) {
  return _mm512_add_epi32(a, b);
}
HOLDFAST_INLINE I sub_int(I a, I b) {
  return _mm512_sub_epi32(a, b);
}
template <int n>
HOLDFAST_INLINE I shl(I a) {
  if constexpr (n == 0) return a;
  return _mm512_slli_epi32(a, n);
}
template <int n>
HOLDFAST_INLINE I shr(I a) {
  if constexpr (n == 0) return a;
  return _mm512_srli_epi32(a, n);
}
template <int n>
HOLDFAST_INLINE I sar(I a) {
  return _mm512_srai_epi32(a, n);
}
HOLDFAST_INLINE I and_int(I a, std::uint32_t m) {
  return _mm512_and_si512(a, set1_int(m));
}
template <std::uint32_t from_a>
HOLDFAST_INLINE I mix(I a, I b) {
  return _mm512_ternarylogic_epi32(set1_int(from_a), a, b, 0xca);
}
template <int bits>
HOLDFAST_INLINE I clean(I a) {
  if constexpr (bits <= 5) return a;  // a permute looks at 4 or 5 bits only
  return and_int(a, ((1u << bits) - 1) * 0x01010101u);
}
template <int bits>
HOLDFAST_INLINE Table load_table(const float* p) {
  if constexpr (bits == 5) return {_mm512_loadu_ps(p), _mm512_loadu_ps(p + 16)};
  if constexpr (bits < 5) return {_mm512_loadu_ps(p), _mm512_setzero_ps()};
  return {_mm512_setzero_ps(), _mm512_setzero_ps()};
}
template <int n>
HOLDFAST_INLINE V look_up(I a, Table t) {
  return _mm512_permutexvar_ps(shr<n>(a), t.low);
}
template <int bits, int n>
HOLDFAST_INLINE V code_float(I a, Table t) {
  if constexpr (bits <= 4) {
    return look_up<n>(a, t);
  } else if constexpr (bits == 5) {
    return _mm512_permutex2var_ps(t.low, shr<n>(a), t.high);
  } else {  // a whole clean byte, moved down and widened by one shuffle
    const I shuffle = _mm512_set4_epi32(
        static_cast<int>(0x8080800cu + n / 8), static_cast<int>(0x80808008u + n / 8),
        static_cast<int>(0x80808004u + n / 8), static_cast<int>(0x80808000u + n / 8));
    return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(a, shuffle));
  }
}
/// Words that become floats and bytes. scalar/vec.h has the meaning.
HOLDFAST_INLINE V to_float(I a) {
  return _mm512_cvtepi32_ps(a);
}
HOLDFAST_INLINE I zero_int() {
  return _mm512_setzero_si512();
}
HOLDFAST_INLINE void store_int(void* p, I a) {
  _mm512_storeu_si512(p, a);
}
HOLDFAST_INLINE I round_int(V v) {
  return _mm512_cvtps_epi32(v);
}
HOLDFAST_INLINE void store_bytes(std::int8_t* p, I a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
}
HOLDFAST_INLINE bool finite_lanes(V v) {
  return _mm512_fpclass_ps_mask(v, 0x99) == 0;  // NaN of both kinds, infinity of both signs
}
HOLDFAST_INLINE void lane_sums_int(I a, I b, std::int32_t (&sums)[2]) {
  const __m256i a8 = _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
  const __m256i b8 = _mm256_add_epi32(_mm512_castsi512_si256(b), _mm512_extracti64x4_epi64(b, 1));
  const __m256i two = _mm256_hadd_epi32(a8, b8);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), _mm_hadd_epi32(four, four));
}
inline constexpr int kSignedBias = 128;  // VPDPBUSD takes unsigned codes
#define HOLDFAST_DOTS_BY_WORDS 0
/// Panels that this many rows read together, where memory is not read in one run: more lines are on
/// their way at once, and from three rows on the panels share what is read of a row.
template <int rows>
inline constexpr int kDotPanels = rows <= 2 ? 4 : 2;
inline constexpr bool kScarceRegisters = false;
template <int bits>
inline constexpr int kDotSmallBatchRows = 16;  // most rows with weights in registers
/// The number of rows, of this many, whose sums for this many panels are in registers at once,
/// together with codes and floats of all.
template <class Block, int panels, int rows>
inline constexpr int kDotTogether = Block::kHasLow ? (rows <= 8 ? 5 - panels : 4 - panels)
                                    : panels > 1   ? 6
                                                   : (rows <= 8 ? 8 : 6);
inline constexpr int kDotRows = 6;
inline constexpr int kDotWide = 2;
inline constexpr int kDotSeparatePlanesMax = 8;
inline constexpr int kInt8BlocksAtOnce = 4;  // blocks that are encoded together
inline constexpr int kChainsAlone = 12;
template <int bits>
inline constexpr int kDotRun = 8;
/// Products of bytes. scalar/vec.h has the meaning.
HOLDFAST_INLINE I signed_codes(I a) {
  return _mm512_xor_si512(a, set1_int(0x80808080u));
}
HOLDFAST_INLINE I look_up_bytes(const std::uint8_t* table, I codes) {
  return _mm512_shuffle_epi8(_mm512_load_si512(table), codes);
}
HOLDFAST_INLINE I four_bytes(const std::int8_t* p) {
  int four = 0;
  __builtin_memcpy(&four, p, 4);
  return _mm512_set1_epi32(four);
}
HOLDFAST_INLINE I dot_begin(I t) {
  return t;
}
template <int bits>
HOLDFAST_INLINE I dot_step(I part, I codes, I x) {
  return _mm512_dpbusd_epi32(part, codes, x);
}
#define HOLDFAST_OWN_ROW_FOUR 1
/// RowFour of dots.inc, but with one panel each product reads the bytes from memory: g++ would hold
/// those of all rows for the next panel, on the stack.
template <int panels>
class RowFour {
 public:
  explicit HOLDFAST_INLINE_METHOD RowFour(const std::int8_t* p) : p_(p) {
    if constexpr (panels > 1) four_ = four_bytes(p);
  }
  template <int bits>
  HOLDFAST_INLINE_METHOD I step(I part, I codes) const {
    if constexpr (panels > 1) return dot_step<bits>(part, codes, four_);
    struct Four {
      std::int8_t bytes[4];
    };
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(part)
            : "v"(codes), "m"(*reinterpret_cast<const Four*>(p_)));
    return part;
  }

 private:
  const std::int8_t* p_;
  I four_;
};
/// Ends a sum. scalar/vec.h has the meaning.
HOLDFAST_INLINE I dot_end(I, I part) {
  return part;
}
/// Bytes, halves and other short floats. scalar/vec.h has the meaning.
HOLDFAST_INLINE __m128i load_bytes(const std::uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
HOLDFAST_INLINE V signed_bytes(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_bytes(p)));
}
HOLDFAST_INLINE V unsigned_bytes(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_bytes(p)));
}
HOLDFAST_INLINE V low_nibbles(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(and_int(_mm512_cvtepu8_epi32(load_bytes(p)), 15));
}
HOLDFAST_INLINE V high_nibbles(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(shr<4>(_mm512_cvtepu8_epi32(load_bytes(p))));
}
HOLDFAST_INLINE V load_half(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
HOLDFAST_INLINE void store_half(void* p, V v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HOLDFAST_INLINE std::uint16_t float_to_half(float f) {
  return static_cast<std::uint16_t>(_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/// E4M3: its bits read as a half are a number 256 times smaller, which is exact; 0x7f is NaN.
HOLDFAST_INLINE V load_fp8(const std::uint8_t* p) {
  const __m256i x = _mm256_cvtepu8_epi16(load_bytes(p));
  const __m256i size = _mm256_and_si256(x, _mm256_set1_epi16(0x7f));
  const __m256i nan = _mm256_and_si256(_mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x7f)),
                                       _mm256_set1_epi16(0x7e00));
  const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(x, size), 8);
  const __m256i half = _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi16(size, 7), sign), nan);
  return mul(_mm512_cvtph_ps(half), set1(256));
}
HOLDFAST_INLINE V load_bf16(const void* p) {
  return floats(shl<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)))));
}

}  // namespace holdfast::cpu::avx512
