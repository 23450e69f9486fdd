// The avx2 family.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

#define HOLDFAST_TARGET HOLDFAST_TARGET_AVX2
#include "worker/backend/cpu/target_begin.h"

#include "worker/backend/cpu/avx2/vec.h"

namespace holdfast::cpu::avx2 {
namespace {
constexpr const char* kFamilyName = "avx2";
#include "worker/backend/cpu/family.inc"
}  // namespace
}  // namespace holdfast::cpu::avx2

#include "worker/backend/cpu/target_end.h"

namespace holdfast::cpu {
const Kernels& avx2_kernels() {
  return avx2::kKernels;
}
}  // namespace holdfast::cpu
