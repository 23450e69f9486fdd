// The avxvnni family. Everything after the includes is compiled for it, so nothing that other units
// share (inline functions, templates of the library) may be defined below them.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avxvnni"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,avxvnni")
#endif

#include "worker/backend/cpu/avxvnni/vec.h"

namespace holdfast::cpu::avxvnni {
namespace {
constexpr const char* kFamilyName = "avxvnni";
#include "worker/backend/cpu/family.inc"
}  // namespace
}  // namespace holdfast::cpu::avxvnni

#if defined(__clang__)
#pragma clang attribute pop
#else
// Reached by every machine: it must not use the family's instructions.
#pragma GCC reset_options
#endif

namespace holdfast::cpu {
const Kernels& avxvnni_kernels() {
  return avxvnni::kKernels;
}
}  // namespace holdfast::cpu
