// The kernels revision of a version to come, for tests: a numerics class of its own.
#include "worker/backend/cpu/kernels_revision.h"

namespace holdfast::cpu {

const char* kernels_revision() {
  return "r99";
}

}  // namespace holdfast::cpu
