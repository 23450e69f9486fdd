#pragma once
// Words of bfloat16s: rows of activations, and weights in pairs. Include inside the target region,
// after pairs.h or emulated_pairs.h.

namespace holdfast::cpu::avx512bf16 {

/// Interleaves the words of the two halves.
HOLDFAST_INLINE I interleave(I words) {
  alignas(64) static constexpr std::uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), words);
}

/// Encodes a row as bfloat16 (ActivationFormat), rounded as Rounding does.
template <class Rounding>
static void make_row(const float* x, std::int64_t n, std::uint8_t* out) {
  for (std::int64_t i = 0; i < n; i += 32) {
    avx512::store_int(out + 2 * i,
                      Rounding::round(avx512::load(x + i), avx512::load(x + i + kLanes)));
  }
}

}  // namespace holdfast::cpu::avx512bf16
