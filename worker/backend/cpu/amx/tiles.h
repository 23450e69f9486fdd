#pragma once
// Products of bfloat16s in the tiles of AMX. Include inside the target region, after
// tile_registers.h and avx512bf16/pairs.h.
//
// Numeric fact (Intel's manual, and compared bit for bit with emulated_tiles.h at start): a product
// of tiles adds to each float of C the sum of two chains of fused multiply-adds from zero, one over
// the even k of the tile, one over the odd, rounded to nearest; subnormals count as zero.

namespace holdfast::cpu::amx {

using avx512::I;
using avx512::V;

/// Tiles 0 to 3 are sums [rows][16], 4 and 5 activations [rows][32 k], 6 and 7 weights [16 pairs of
/// k][16 columns]. 0, 1 and 4 have `first` rows, 2, 3 and 5 `second`.
class HardTiles : public TileRegisters {
 public:
  ~HardTiles() { release(); }

  void configure(int first, int second) {
    TileConfig config;
    const int rows[8] = {first, first, second, second, first, second, 16, 16};
    for (int i = 0; i < 8; ++i) {
      config.rows[i] = static_cast<std::uint8_t>(rows[i]);
      config.row_bytes[i] = rows[i] > 0 ? 64 : 0;
    }
    TileRegisters::configure(config);
  }
  /// c += a * b.
  template <int c, int a, int b>
  HOLDFAST_INLINE_METHOD void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b) : "memory");
  }
  static HOLDFAST_INLINE_METHOD I round(V low, V high) {
    return avx512bf16::HardPairs::round(low, high);
  }
};

}  // namespace holdfast::cpu::amx
