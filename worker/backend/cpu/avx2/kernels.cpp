// The avx2 family. Everything after the includes is compiled for it, so nothing that other units
// share (inline functions, templates of the library) may be defined below them.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#include "worker/backend/cpu/avx2/vec.h"

namespace holdfast::cpu::avx2 {
namespace {
constexpr const char* kFamilyName = "avx2";
#include "worker/backend/cpu/family.inc"
}  // namespace
}  // namespace holdfast::cpu::avx2

#if defined(__clang__)
#pragma clang attribute pop
#else
// Reached by every machine: it must not use the family's instructions.
#pragma GCC reset_options
#endif

namespace holdfast::cpu {
const Kernels& avx2_kernels() {
  return avx2::kKernels;
}
}  // namespace holdfast::cpu
