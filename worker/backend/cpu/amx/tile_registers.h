#pragma once
// The matrix registers of AMX, by number. Inline assembly, because g++ 12's intrinsics name no
// memory as an input, so that stores before them could be dropped. Include inside the target
// region, after avx512/vec.h.

namespace holdfast::cpu::amx {

/// The operand of ldtilecfg: rows of each tile, and bytes of a row; 0: there is no such tile.
struct TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// The tiles of the processor. Each thread has its own.
class TileRegisters {
 public:
  static HOLDFAST_INLINE_METHOD void configure(const TileConfig& config) {
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  static HOLDFAST_INLINE_METHOD void release() { __asm__ volatile("tilerelease" ::: "memory"); }
  template <int tile>
  static HOLDFAST_INLINE_METHOD void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(tile) : "memory");
  }
  template <int tile>
  static HOLDFAST_INLINE_METHOD void load(const void* from, std::int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile)
                     : "memory");
  }
  /// load() of data that is not read again soon: it takes no lines of the first-level cache.
  template <int tile>
  static HOLDFAST_INLINE_METHOD void load_once(const void* from, std::int64_t stride) {
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile)
                     : "memory");
  }
  template <int tile>
  static HOLDFAST_INLINE_METHOD void store(void* to, std::int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
  }
};

}  // namespace holdfast::cpu::amx
