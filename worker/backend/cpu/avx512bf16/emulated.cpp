// The avx512bf16 family on machines without AVX512_BF16, bit for bit, slowly: for tests and the
// check at start.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

#define HOLDFAST_TARGET HOLDFAST_TARGET_AVX512
#include "worker/backend/cpu/target_begin.h"

#include "worker/backend/cpu/avx512/vec.h"

#include "worker/backend/cpu/avx512bf16/emulated_pairs.h"

#include "worker/backend/cpu/avx512bf16/rows.h"

namespace holdfast::cpu::avx512bf16 {
namespace {
using namespace avx512;
using Pairs = EmulatedPairs;
#include "worker/backend/cpu/avx512bf16/products.inc"
}  // namespace
}  // namespace holdfast::cpu::avx512bf16

#include "worker/backend/cpu/target_end.h"

#include "worker/backend/cpu/avx512bf16/table.inc"

namespace holdfast::cpu {
const Kernels& avx512bf16_emulated_kernels() {
  static const Kernels kernels = avx512bf16::make_table("avx512bf16-emulated");
  return kernels;
}
}  // namespace holdfast::cpu
