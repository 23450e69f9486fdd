// The avx512bf16 family: products in pairs of bfloat16s, everything else as avx512.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

#define HOLDFAST_TARGET HOLDFAST_TARGET_AVX512BF16
#include "worker/backend/cpu/target_begin.h"

#include "worker/backend/cpu/avx512/vec.h"

#include "worker/backend/cpu/avx512bf16/pairs.h"

#include "worker/backend/cpu/avx512bf16/rows.h"

namespace holdfast::cpu::avx512bf16 {
namespace {
using namespace avx512;
using Pairs = HardPairs;
#include "worker/backend/cpu/avx512bf16/products.inc"
}  // namespace
}  // namespace holdfast::cpu::avx512bf16

#include "worker/backend/cpu/target_end.h"

#include "worker/backend/cpu/avx512bf16/table.inc"

namespace holdfast::cpu {
const Kernels& avx512bf16_kernels() {
  static const Kernels kernels = avx512bf16::make_table("avx512bf16");
  return kernels;
}
}  // namespace holdfast::cpu
