// The avx512 family.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

#define HOLDFAST_TARGET HOLDFAST_TARGET_AVX512
#include "worker/backend/cpu/target_begin.h"

#include "worker/backend/cpu/avx512/vec.h"

namespace holdfast::cpu::avx512 {
namespace {
constexpr const char* kFamilyName = "avx512";
#include "worker/backend/cpu/family.inc"
}  // namespace
}  // namespace holdfast::cpu::avx512

#include "worker/backend/cpu/target_end.h"

namespace holdfast::cpu {
const Kernels& avx512_kernels() {
  return avx512::kKernels;
}
}  // namespace holdfast::cpu
