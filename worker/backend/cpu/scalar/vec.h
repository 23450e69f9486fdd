#pragma once
// Sixteen float lanes in plain C++: the definition that the other families repeat in hardware.
// Include after <cmath>, <cstdint>, <cstring>.

namespace holdfast::cpu::scalar {

// Functions are not inlined: sixteen scalar lanes times an unrolled span would be megabytes of
// code.
#define HOLDFAST_INLINE [[maybe_unused]] __attribute__((noinline)) static
#define HOLDFAST_INLINE_METHOD __attribute__((noinline))
#define HOLDFAST_UNROLL

/// Sixteen floats.
struct V {
  float f[16];
};
/// Sixteen words of 32 bits: integers, or codes of weights.
struct I {
  std::uint32_t u[16];
};

inline constexpr int kFusedPanels = 1;  // panels of a fused unpack-and-multiply
inline constexpr int kTileRows = 4;     // rows of a register tile
inline constexpr int kTileWide = 1;     // panels of a register tile
inline constexpr int kQueries = 1;      // queries that share loads of an attention page
inline constexpr int kPageWide = 1;     // vectors of a page that are loaded together

/// The lanes f(0) to f(15).
template <class F>
inline V each(F f) {
  V r;
  for (int i = 0; i < 16; ++i) r.f[i] = f(i);
  return r;
}
template <class F>
inline I each_int(F f) {
  I r;
  for (int i = 0; i < 16; ++i) r.u[i] = f(i);
  return r;
}

/// a * b + c, rounded once, of one float.
HOLDFAST_INLINE float fma1(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
/// All lanes 0.
HOLDFAST_INLINE V zero() {
  return each([](int) { return 0.0f; });
}
/// All lanes x.
HOLDFAST_INLINE V set1(float x) {
  return each([=](int) { return x; });
}
/// Sixteen floats from p, at any address.
HOLDFAST_INLINE V load(const float* p) {
  return each([=](int i) { return p[i]; });
}
/// Sixteen floats to p, at any address.
HOLDFAST_INLINE void store(float* p, const V& v) {
  std::memcpy(p, v.f, sizeof v.f);
}
/// By lane: a * b + c, rounded once.
HOLDFAST_INLINE V fma(const V& a, const V& b, const V& c) {
  return each([&](int i) { return __builtin_fmaf(a.f[i], b.f[i], c.f[i]); });
}
/// By lane, rounded to the nearest even: the sum; then difference, product, quotient.
HOLDFAST_INLINE V add(const V& a, const V& b) {
  return each([&](int i) { return a.f[i] + b.f[i]; });
}
HOLDFAST_INLINE V sub(const V& a, const V& b) {
  return each([&](int i) { return a.f[i] - b.f[i]; });
}
HOLDFAST_INLINE V mul(const V& a, const V& b) {
  return each([&](int i) { return a.f[i] * b.f[i]; });
}
HOLDFAST_INLINE V div(const V& a, const V& b) {
  return each([&](int i) { return a.f[i] / b.f[i]; });
}
/// MAXPS and MINPS: the second operand when either is NaN.
HOLDFAST_INLINE V max(const V& a, const V& b) {
  return each([&](int i) { return a.f[i] > b.f[i] ? a.f[i] : b.f[i]; });
}
HOLDFAST_INLINE V min(const V& a, const V& b) {
  return each([&](int i) { return a.f[i] < b.f[i] ? a.f[i] : b.f[i]; });
}
/// `r`, but NaN lanes of `x` stay NaN.
HOLDFAST_INLINE V propagate_nan(const V& x, const V& r) {
  return each([&](int i) { return x.f[i] == x.f[i] ? r.f[i] : x.f[i]; });
}
/// By lane: a < b ? yes : no.
HOLDFAST_INLINE V select_less(const V& a, const V& b, const V& yes, const V& no) {
  return each([&](int i) { return a.f[i] < b.f[i] ? yes.f[i] : no.f[i]; });
}
/// Lanes below n of v, `other` above.
HOLDFAST_INLINE V first_lanes(const V& v, int n, const V& other) {
  return each([&](int i) { return i < n ? v.f[i] : other.f[i]; });
}

/// Sixteen words from p, at any address.
HOLDFAST_INLINE I load_int(const void* p) {
  I r;
  std::memcpy(r.u, p, sizeof r.u);
  return r;
}
/// The bits of the floats; floats() is the way back.
HOLDFAST_INLINE I bits(const V& v) {
  I r;
  std::memcpy(r.u, v.f, sizeof r.u);
  return r;
}
HOLDFAST_INLINE V floats(const I& v) {
  V r;
  std::memcpy(r.f, v.u, sizeof r.f);
  return r;
}
/// All words x.
HOLDFAST_INLINE I set1_int(std::uint32_t x) {
  return each_int([=](int) { return x; });
}
/// By word, modulo 2^32: sum, then difference.
HOLDFAST_INLINE I add_int(const I& a, const I& b) {
  return each_int([&](int i) { return a.u[i] + b.u[i]; });
}
HOLDFAST_INLINE I sub_int(const I& a, const I& b) {
  return each_int([&](int i) { return a.u[i] - b.u[i]; });
}
/// By word: a and m.
HOLDFAST_INLINE I and_int(const I& a, std::uint32_t m) {
  return each_int([&](int i) { return a.u[i] & m; });
}
/// By word: shifted left, right with zeros, right with the sign, by n bits.
template <int n>
HOLDFAST_INLINE I shl(const I& a) {
  return each_int([&](int i) { return a.u[i] << n; });
}
template <int n>
HOLDFAST_INLINE I shr(const I& a) {
  return each_int([&](int i) { return a.u[i] >> n; });
}
template <int n>
HOLDFAST_INLINE I sar(const I& a) {
  return each_int(
      [&](int i) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(a.u[i]) >> n); });
}
/// a where `from_a` is set, else b.
template <std::uint32_t from_a>
HOLDFAST_INLINE I mix(const I& a, const I& b) {
  return each_int([&](int i) { return (a.u[i] & from_a) | (b.u[i] & ~from_a); });
}
/// Prepares four codes in bytes for code_float<bits>.
template <int bits>
HOLDFAST_INLINE I clean(const I& a) {
  return a;
}
/// A table of float values; its length and place are the family's.
struct Table {
  const float* values;
};
/// The table of 2^bits floats from p.
template <int bits>
HOLDFAST_INLINE Table load_table(const float* p) {
  return {p};
}
/// table[4 bits from bit n of each lane].
template <int n>
HOLDFAST_INLINE V look_up(const I& a, const Table& t) {
  return each([&](int i) { return t.values[a.u[i] >> n & 15]; });
}
/// The code of `bits` bits from bit n of each lane as a float; the table is kCounting (reader.inc).
template <int bits, int n>
HOLDFAST_INLINE V code_float(const I& a, const Table&) {
  return each([&](int i) { return static_cast<float>(a.u[i] >> n & ((1 << bits) - 1)); });
}
/// Sixteen bytes from p as floats: with sign, without, their low and their high halves.
HOLDFAST_INLINE V signed_bytes(const std::uint8_t* p) {
  return each([=](int i) { return static_cast<float>(static_cast<std::int8_t>(p[i])); });
}
HOLDFAST_INLINE V unsigned_bytes(const std::uint8_t* p) {
  return each([=](int i) { return static_cast<float>(p[i]); });
}
HOLDFAST_INLINE V low_nibbles(const std::uint8_t* p) {
  return each([=](int i) { return static_cast<float>(p[i] & 15); });
}
HOLDFAST_INLINE V high_nibbles(const std::uint8_t* p) {
  return each([=](int i) { return static_cast<float>(p[i] >> 4); });
}

/// The words, which have a sign, as floats.
HOLDFAST_INLINE V to_float(const I& a) {
  return each([&](int i) { return static_cast<float>(static_cast<std::int32_t>(a.u[i])); });
}
/// All words 0.
HOLDFAST_INLINE I zero_int() {
  return {};
}
/// Sixteen words to p, at any address.
HOLDFAST_INLINE void store_int(void* p, const I& a) {
  std::memcpy(p, a.u, sizeof a.u);
}
/// Rounds to the nearest integer, ties to even; |v| < 2^22.
HOLDFAST_INLINE I round_int(const V& v) {
  return each_int([&](int i) {
    const float shifted = v.f[i] + 0x1.8p23f;
    std::uint32_t u = 0;
    std::memcpy(&u, &shifted, 4);
    return u - 0x4b400000u;
  });
}
/// Stores the low byte of each lane.
HOLDFAST_INLINE void store_bytes(std::int8_t* p, const I& a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(a.u[i]);
}
/// True if no lane is NaN or infinite.
HOLDFAST_INLINE bool finite_lanes(const V& v) {
  for (int i = 0; i < 16; ++i) {
    if (!__builtin_isfinite(v.f[i])) return false;
  }
  return true;
}
/// The sums of the words of a and of b, modulo 2^32.
HOLDFAST_INLINE void lane_sums_int(const I& a, const I& b, std::int32_t (&sums)[2]) {
  sums[0] = sums[1] = 0;
  for (int i = 0; i < 16; ++i) {
    sums[0] += static_cast<std::int32_t>(a.u[i]);
    sums[1] += static_cast<std::int32_t>(b.u[i]);
  }
}
// Dot products of bytes, four k in each lane. `t` is a sum in 32 bits; `part` continues it in the
// form that the family adds up fastest, for at most kDotRun steps.
inline constexpr int kSignedBias = 0;  // added to signed codes where they must not be negative
#define HOLDFAST_DOTS_BY_WORDS 0       // 1: many rows take dots_words.inc where kDotByWords says so
template <int rows>
inline constexpr int kDotPanels = 1;             // read together
inline constexpr bool kScarceRegisters = false;  // for what two panels share of one or two rows
template <int bits>
inline constexpr int kDotSmallBatchRows = 2;  // most rows with weights in registers
template <class Block, int panels, int rows>
inline constexpr int kDotTogether = 2;  // rows whose sums are in registers at once
inline constexpr int kDotRows = 2;
inline constexpr int kDotWide = 1;
inline constexpr int kDotSeparatePlanesMax = 0;  // most sums of a tile that has its planes separate
inline constexpr int kInt8BlocksAtOnce = 1;      // blocks that are encoded together
inline constexpr int kChainsAlone = 1;
template <int bits>
inline constexpr int kDotRun = 8;
/// Codes of 8 bits as they are multiplied, kSignedBias added.
HOLDFAST_INLINE I signed_codes(const I& a) {
  return a;
}
/// table[each byte]; bytes are below 16.
HOLDFAST_INLINE I look_up_bytes(const std::uint8_t* table, const I& codes) {
  return each_int([&](int i) {
    std::uint32_t out = 0;
    for (int b = 0; b < 32; b += 8) {
      out |= static_cast<std::uint32_t>(table[codes.u[i] >> b & 15]) << b;
    }
    return out;
  });
}
/// The same four bytes in every lane.
HOLDFAST_INLINE I four_bytes(const std::int8_t* p) {
  std::uint32_t four = 0;
  std::memcpy(&four, p, 4);
  return set1_int(four);
}
/// Begins a sum from t.
HOLDFAST_INLINE I dot_begin(const I& t) {
  return t;
}
/// Adds the four products of bytes of each word: codes of `bits` bits times signed x.
template <int bits>
HOLDFAST_INLINE I dot_step(const I& part, const I& codes, const I& x) {
  return each_int([&](int i) {
    std::int32_t sum = static_cast<std::int32_t>(part.u[i]);
    for (int b = 0; b < 32; b += 8) {
      const std::uint32_t byte = codes.u[i] >> b & 255;
      const std::int32_t code =
          bits == 8 ? static_cast<std::int8_t>(byte) : static_cast<std::int32_t>(byte);
      sum += code * static_cast<std::int8_t>(x.u[i] >> b & 255);
    }
    return static_cast<std::uint32_t>(sum);
  });
}
/// Returns the sum that `part` has become.
HOLDFAST_INLINE I dot_end(const I&, const I& part) {
  return part;
}

/// The value of a half, which is exact; NaN turns quiet.
HOLDFAST_INLINE float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16;
  const std::uint32_t rest = h & 0x7fff;
  std::uint32_t u = 0;
  if (rest >= 0x7c00) {
    u = sign | 0x7f800000 | rest << 13 | (rest > 0x7c00 ? 0x400000 : 0);  // NaN turns quiet
  } else if (rest >= 0x400) {
    u = sign | ((rest << 13) + (112u << 23));
  } else {  // subnormal: exact in float
    float f = static_cast<float>(rest) * 0x1p-24f;
    std::memcpy(&u, &f, 4);
    u |= sign;
  }
  float f = 0;
  std::memcpy(&f, &u, 4);
  return f;
}
/// Rounds to nearest even, as VCVTPS2PH does.
HOLDFAST_INLINE std::uint16_t float_to_half(float f) {
  std::uint32_t u = 0;
  std::memcpy(&u, &f, 4);
  const std::uint32_t sign = u >> 16 & 0x8000;
  u &= 0x7fffffff;
  std::uint32_t h = 0;
  if (u > 0x7f800000) {
    h = 0x7e00 | (u >> 13 & 0x3ff);
  } else if (u >= 0x477ff000) {  // 65520 and more round to infinity
    h = 0x7c00;
  } else if (u >= 0x38800000) {
    h = (u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13;
  } else {  // subnormal result: adding 0.5 lets the adder round at 2^-24
    float a = 0;
    std::memcpy(&a, &u, 4);
    a += 0.5f;
    std::memcpy(&h, &a, 4);
    h -= 0x3f000000;
  }
  return static_cast<std::uint16_t>(sign | h);
}
HOLDFAST_INLINE V load_half(const void* p) {
  return each([=](int i) {
    std::uint16_t h = 0;
    std::memcpy(&h, static_cast<const std::uint8_t*>(p) + 2 * i, 2);
    return half_to_float(h);
  });
}
HOLDFAST_INLINE void store_half(void* p, const V& v) {
  for (int i = 0; i < 16; ++i) {
    const std::uint16_t h = float_to_half(v.f[i]);
    std::memcpy(static_cast<std::uint8_t*>(p) + 2 * i, &h, 2);
  }
}
/// E4M3: four bits of exponent, three of mantissa; 0x7f is NaN, and nothing is infinite.
HOLDFAST_INLINE V load_fp8(const std::uint8_t* p) {
  return each([=](int i) {
    const std::uint32_t size = p[i] & 0x7f;
    const std::uint32_t u = size == 0x7f ? 0x7fc00000u : (size << 20) + (120u << 23);
    float f = 0;
    std::memcpy(&f, &u, 4);
    if (size < 8) f = static_cast<float>(size) * 0x1p-9f;
    return (p[i] & 0x80) != 0 ? -f : f;
  });
}
HOLDFAST_INLINE V load_bf16(const void* p) {
  return floats(each_int([=](int i) {
    std::uint16_t h = 0;
    std::memcpy(&h, static_cast<const std::uint8_t*>(p) + 2 * i, 2);
    return static_cast<std::uint32_t>(h) << 16;
  }));
}

}  // namespace holdfast::cpu::scalar
