// The scalar family: plain C++ for any x86-64, the reference of the others.

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"
#include "worker/backend/cpu/scalar/vec.h"

namespace holdfast::cpu::scalar {
namespace {
#include "worker/backend/cpu/matmul.inc"

#include "worker/backend/cpu/rows.inc"

#include "worker/backend/cpu/rows_more.inc"

#include "worker/backend/cpu/attention.inc"

constexpr Kernels kKernels = {"scalar",
                              &matmul,
                              &unpack_row,
                              &rmsnorm,
                              &add_row,
                              &silu_mul,
                              &rope,
                              &store_key,
                              &store_value,
                              &attention,
                              &exp_row,
                              &all_finite,
                              &attention_ranged,
                              &layernorm,
                              &rmsnorm_spread,
                              &activate,
                              &add_scaled,
                              &scale_cap};
}  // namespace
}  // namespace holdfast::cpu::scalar

namespace holdfast::cpu {
const Kernels& scalar_kernels() {
  return scalar::kKernels;
}
}  // namespace holdfast::cpu
