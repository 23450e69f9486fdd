#pragma once
// The matrix registers of AMX, by number. Inline assembly, because g++ 12's intrinsics name no
// memory as an input, so that stores before them could be dropped. Include inside the target
// region, behind avx512/vec.h and avx512bf16/pairs.h.
//
// Numeric fact (Intel's manual, and compared bit for bit with emulated_tiles.h at start): a product
// of tiles adds to each float of C the sum of two chains of fused multiply-adds from zero, one over
// the even k of the tile, one over the odd, rounded to nearest; subnormals count as zero.

namespace holdfast::cpu::amx {

using avx512::I;
using avx512::V;

/// Tiles 0 to 3 are sums [rows][16], 4 and 5 activations [rows][32 k], 6 and 7 weights [16 pairs of
/// k][16 columns]. 0, 1 and 4 have `first` rows, 2, 3 and 5 `second`.
class HardTiles {
 public:
  ~HardTiles() { __asm__ volatile("tilerelease" ::: "memory"); }

  void configure(int first, int second) {
    struct alignas(64) Config {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {};
      std::uint8_t rows[16] = {};
    } config;
    static_assert(sizeof(Config) == 64);
    const int rows[8] = {first, first, second, second, first, second, 16, 16};
    for (int i = 0; i < 8; ++i) {
      config.rows[i] = static_cast<std::uint8_t>(rows[i]);
      config.row_bytes[i] = rows[i] > 0 ? 64 : 0;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  template <int tile>
  HF_INLINE_METHOD void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(tile) : "memory");
  }
  template <int tile>
  HF_INLINE_METHOD void load(const void* from, std::int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile)
                     : "memory");
  }
  /// load() of what is not read again soon: it takes no place in the first-level cache.
  template <int tile>
  HF_INLINE_METHOD void load_once(const void* from, std::int64_t stride) {
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile)
                     : "memory");
  }
  template <int tile>
  HF_INLINE_METHOD void store(void* to, std::int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
  }
  /// c += a * b.
  template <int c, int a, int b>
  HF_INLINE_METHOD void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b) : "memory");
  }
  static HF_INLINE_METHOD I round(V low, V high) { return avx512bf16::HardPairs::round(low, high); }
};

}  // namespace holdfast::cpu::amx
