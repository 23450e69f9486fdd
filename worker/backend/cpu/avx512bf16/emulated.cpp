// The avx512bf16 family on machines without AVX512_BF16, bit for bit, slowly: for tests and the
// check at start. Everything after the includes is compiled for it, so nothing that other units
// share (inline functions, templates of the library) may be defined below them.

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

#include "worker/backend/cpu/avx512bf16/emulated_pairs.h"

#include "worker/backend/cpu/avx512bf16/rows.h"

namespace holdfast::cpu::avx512bf16 {
namespace {
using namespace avx512;
using Pairs = EmulatedPairs;
#include "worker/backend/cpu/lanes.inc"

#include "worker/backend/cpu/fetch.inc"

#include "worker/backend/cpu/reader.inc"

#include "worker/backend/cpu/matmul.inc"

#include "worker/backend/cpu/avx512bf16/unpack.inc"

#include "worker/backend/cpu/avx512bf16/products.inc"
}  // namespace
}  // namespace holdfast::cpu::avx512bf16

#if defined(__clang__)
#pragma clang attribute pop
#else
// Reached by every machine: it must not use the family's instructions.
#pragma GCC reset_options
#endif

#include "worker/backend/cpu/avx512bf16/table.inc"

namespace holdfast::cpu {
const Kernels& avx512bf16_emulated_kernels() {
  static const Kernels kernels = avx512bf16::make_table("avx512bf16-emulated");
  return kernels;
}
}  // namespace holdfast::cpu
