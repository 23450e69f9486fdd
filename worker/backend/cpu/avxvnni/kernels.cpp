// The avxvnni family.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

#define HOLDFAST_TARGET HOLDFAST_TARGET_AVXVNNI
#include "worker/backend/cpu/target_begin.h"

#include "worker/backend/cpu/avxvnni/vec.h"

namespace holdfast::cpu::avxvnni {
namespace {
constexpr const char* kFamilyName = "avxvnni";
#include "worker/backend/cpu/family.inc"
}  // namespace
}  // namespace holdfast::cpu::avxvnni

#include "worker/backend/cpu/target_end.h"

namespace holdfast::cpu {
const Kernels& avxvnni_kernels() {
  return avxvnni::kKernels;
}
}  // namespace holdfast::cpu
