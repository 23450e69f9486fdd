#pragma once
// The operations of tiles.h by other instructions: the reference of the family amx, for tests on
// any machine and for the check at start. Include inside a target region with AVX-512, after
// avx512/vec.h and avx512bf16/emulated_pairs.h.

namespace holdfast::cpu::amx {

using avx512::I;
using avx512::V;

/// AMX's tiles by AVX-512, for processors without them: the same bits.
class EmulatedTiles {
 public:
  void configure(int first, int second) {
    const int rows[8] = {first, first, second, second, first, second, 16, 16};
    for (int i = 0; i < 8; ++i) rows_[i] = rows[i];
  }
  template <int tile>
  void zero() {
    std::memset(bytes_[tile], 0, sizeof bytes_[tile]);
  }
  template <int tile>
  void load(const void* from, std::int64_t stride) {
    for (int r = 0; r < rows_[tile]; ++r) {
      std::memcpy(bytes_[tile][r], static_cast<const std::uint8_t*>(from) + r * stride, 64);
    }
  }
  template <int tile>
  void load_once(const void* from, std::int64_t stride) {
    load<tile>(from, stride);
  }
  template <int tile>
  void store(void* to, std::int64_t stride) {
    for (int r = 0; r < rows_[tile]; ++r) {
      std::memcpy(static_cast<std::uint8_t*>(to) + r * stride, bytes_[tile][r], 64);
    }
  }
  template <int c, int a, int b>
  void multiply() {
    const avx512bf16::NoSubnormals mode;
    for (int m = 0; m < rows_[a]; ++m) {
      V even = avx512::zero();
      V odd = avx512::zero();
      for (int pair = 0; pair < 16; ++pair) {
        std::uint32_t two = 0;
        std::memcpy(&two, bytes_[a][m] + 4 * pair, 4);
        const I weights = avx512::load_int(bytes_[b][pair]);
        even = avx512::fma(avx512::floats(avx512::set1_int(two << 16)),
                           avx512::floats(avx512::shl<16>(weights)), even);
        odd = avx512::fma(avx512::floats(avx512::set1_int(two & 0xffff0000u)),
                          avx512::floats(avx512::and_int(weights, 0xffff0000u)), odd);
      }
      float* sums = reinterpret_cast<float*>(bytes_[c][m]);
      avx512::store(sums, avx512::add(avx512::load(sums), avx512::add(even, odd)));
    }
  }
  static I round(V low, V high) { return avx512bf16::EmulatedPairs::round(low, high); }

 private:
  alignas(64) std::uint8_t bytes_[8][16][64] = {};
  int rows_[8] = {};
};

}  // namespace holdfast::cpu::amx
