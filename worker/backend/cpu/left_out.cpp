// Stands in for kernel families that a build leaves out (CMake's HOLDFAST_CPU_FAMILIES), so that
// what names them links. Nothing calls these: select_family() says that such a family is not there.

#include "shared/base/check.h"
#include "worker/backend/cpu/kernels.h"

#define HOLDFAST_LEFT_OUT(accessor)                           \
  const Kernels& accessor() {                                 \
    CHECK_MSG(false, "kernels that this build has left out"); \
    return scalar_kernels();                                  \
  }

namespace holdfast::cpu {

#if !HOLDFAST_FAMILY_AVX2
HOLDFAST_LEFT_OUT(avx2_kernels)
#endif
#if !HOLDFAST_FAMILY_AVXVNNI
HOLDFAST_LEFT_OUT(avxvnni_kernels)
#endif
#if !HOLDFAST_FAMILY_AVX512
HOLDFAST_LEFT_OUT(avx512_kernels)
#endif
#if !HOLDFAST_FAMILY_AVX512BF16
HOLDFAST_LEFT_OUT(avx512bf16_kernels)
HOLDFAST_LEFT_OUT(avx512bf16_emulated_kernels)
#endif
#if !HOLDFAST_FAMILY_AMX
HOLDFAST_LEFT_OUT(amx_kernels)
HOLDFAST_LEFT_OUT(amx_emulated_kernels)
HOLDFAST_LEFT_OUT(avx512_amx_int8_kernels)
#endif

}  // namespace holdfast::cpu
