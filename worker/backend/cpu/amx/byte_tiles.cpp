// avx512 with products of integers through tiles, where the processor has them: the same bits.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

#define HOLDFAST_TARGET HOLDFAST_TARGET_AVX512
#include "worker/backend/cpu/target_begin.h"

#include "worker/backend/cpu/avx512/vec.h"

#include "worker/backend/cpu/amx/tile_registers.h"

namespace holdfast::cpu::avx512 {
namespace {
#include "worker/backend/cpu/amx/byte_tiles.inc"
}  // namespace
}  // namespace holdfast::cpu::avx512

#include "worker/backend/cpu/target_end.h"

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
