// The scalar family: plain C++ for any x86-64, the reference of the others.

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernels.h"
#include "worker/backend/cpu/scalar/vec.h"

namespace holdfast::cpu::scalar {
namespace {
constexpr const char* kFamilyName = "scalar";
#include "worker/backend/cpu/family.inc"
}  // namespace
}  // namespace holdfast::cpu::scalar

namespace holdfast::cpu {
const Kernels& scalar_kernels() {
  return scalar::kKernels;
}
}  // namespace holdfast::cpu
