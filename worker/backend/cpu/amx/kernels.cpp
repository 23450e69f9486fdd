// The amx family: products and attention through the tiles of AMX, everything else as avx512.

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "worker/backend/cpu/kernels.h"

#define HOLDFAST_TARGET HOLDFAST_TARGET_AVX512BF16
#include "worker/backend/cpu/target_begin.h"

#include "worker/backend/cpu/avx512/vec.h"

#include "worker/backend/cpu/avx512bf16/pairs.h"

#include "worker/backend/cpu/avx512bf16/rows.h"

#include "worker/backend/cpu/amx/tile_registers.h"

#include "worker/backend/cpu/amx/tiles.h"

namespace holdfast::cpu::amx {
namespace {
using namespace avx512;
using Tiles = HardTiles;
#include "worker/backend/cpu/amx/products.inc"

#include "worker/backend/cpu/amx/attention.inc"
}  // namespace
}  // namespace holdfast::cpu::amx

#include "worker/backend/cpu/target_end.h"

#include "worker/backend/cpu/amx/table.inc"

namespace holdfast::cpu {
const Kernels& amx_kernels() {
  static const Kernels kernels = amx::make_table("amx");
  return kernels;
}
}  // namespace holdfast::cpu
