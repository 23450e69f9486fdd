#include "worker/backend/api/revisions.h"

#include "worker/backend/api/opencl.h"
#include "worker/backend/cpu/kernels_revision.h"

namespace holdfast::backend {

std::string kernels_revisions() {
  const std::string device = opencl::kernels_revision();
  return std::string("cpu/") + cpu::kernels_revision() +
         (device.empty() ? std::string() : " opencl/" + device);
}

}  // namespace holdfast::backend
