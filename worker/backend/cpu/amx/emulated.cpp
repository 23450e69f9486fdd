// The amx family on machines without AMX, bit for bit, slowly: for tests and the check at start.

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "worker/backend/cpu/kernels.h"

#define HOLDFAST_TARGET HOLDFAST_TARGET_AVX512
#include "worker/backend/cpu/target_begin.h"

#include "worker/backend/cpu/avx512/vec.h"

#include "worker/backend/cpu/avx512bf16/emulated_pairs.h"

#include "worker/backend/cpu/avx512bf16/rows.h"

#include "worker/backend/cpu/amx/emulated_tiles.h"

namespace holdfast::cpu::amx {
namespace {
using namespace avx512;
using Tiles = EmulatedTiles;
#include "worker/backend/cpu/amx/products.inc"

#include "worker/backend/cpu/amx/attention.inc"
}  // namespace
}  // namespace holdfast::cpu::amx

#include "worker/backend/cpu/target_end.h"

#include "worker/backend/cpu/amx/table.inc"

namespace holdfast::cpu {
const Kernels& amx_emulated_kernels() {
  static const Kernels kernels = amx::make_table("amx-emulated");
  return kernels;
}
}  // namespace holdfast::cpu
