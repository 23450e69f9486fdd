// avx512 with products of integers through tiles, where the processor has them: the same bits.
// Everything after the includes is compiled for it, so nothing that other units share (inline
// functions, templates of the library) may be defined below them.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false, in g++'s own AVX-512 headers
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#endif

#include "worker/backend/cpu/avx512/vec.h"

#include "worker/backend/cpu/amx/tile_registers.h"

namespace holdfast::cpu::avx512 {
namespace {
#include "worker/backend/cpu/lanes.inc"

#include "worker/backend/cpu/fetch.inc"

#include "worker/backend/cpu/reader.inc"

#include "worker/backend/cpu/dots.inc"

#include "worker/backend/cpu/dots_bytes.inc"

#include "worker/backend/cpu/amx/byte_tiles.inc"
}  // namespace
}  // namespace holdfast::cpu::avx512

#if defined(__clang__)
#pragma clang attribute pop
#else
// Reached by every machine: it must not use the family's instructions.
#pragma GCC reset_options
#endif

namespace holdfast::cpu {
const Kernels& avx512_amx_int8_kernels() {
  static const Kernels kernels = [] {
    Kernels k = avx512_kernels();
    k.matmul = &avx512::by_amx::matmul;
    return k;
  }();
  return kernels;
}
}  // namespace holdfast::cpu
