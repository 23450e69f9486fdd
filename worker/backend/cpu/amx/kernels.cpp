// The amx family: products and attention through the tiles of AMX, everything else as avx512.
// Everything after the includes is compiled for it, so nothing that other units share (inline
// functions, templates of the library) may be defined below them.

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "worker/backend/cpu/kernels.h"

#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((                                                                         \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false, in g++'s own AVX-512 headers
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")
#endif

#include "worker/backend/cpu/avx512/vec.h"

#include "worker/backend/cpu/avx512bf16/pairs.h"

#include "worker/backend/cpu/avx512bf16/rows.h"

#include "worker/backend/cpu/amx/tile_registers.h"

#include "worker/backend/cpu/amx/tiles.h"

namespace holdfast::cpu::amx {
namespace {
using namespace avx512;
using Tiles = HardTiles;
#include "worker/backend/cpu/lanes.inc"

#include "worker/backend/cpu/fetch.inc"

#include "worker/backend/cpu/reader.inc"

#include "worker/backend/cpu/avx512bf16/unpack.inc"

#include "worker/backend/cpu/amx/products.inc"

#include "worker/backend/cpu/kv_read.inc"

#include "worker/backend/cpu/attention_state.inc"

#include "worker/backend/cpu/amx/attention.inc"
}  // namespace
}  // namespace holdfast::cpu::amx

#if defined(__clang__)
#pragma clang attribute pop
#else
// Reached by every machine: it must not use the family's instructions.
#pragma GCC reset_options
#endif

#include "worker/backend/cpu/amx/table.inc"

namespace holdfast::cpu {
const Kernels& amx_kernels() {
  static const Kernels kernels = amx::make_table("amx");
  return kernels;
}
}  // namespace holdfast::cpu
