#include "worker/backend/cpu/kernels_revision.h"

#include "worker/backend/cpu/executor.h"

namespace holdfast::cpu {

const char* kernels_revision() {
  return kKernelsRev;
}

}  // namespace holdfast::cpu
