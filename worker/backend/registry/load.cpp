// Selects the backend that a device name means. A backend that is not built gives its own error.

#include "worker/backend/cpu/load.h"
#include "worker/backend/api/load.h"
#include "worker/backend/api/opencl.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::backend {

namespace {

/// The feature of a model that only the cpu backend computes; null: there is none.
const char* cpu_alone(const model::Program& program) {
  if (program.shape.latent > 0) return "latent attention";
  const plan::Family* family = program.details.family;
  if (family != nullptr && family->uneven) return "layers of several kinds";
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Executor>> load(std::string_view device, const model::Program& program,
                                       const LoadOptions& options) {
  if (device.empty() || device == "cpu") return cpu::load(program, options);
  const char* alone = cpu_alone(program);
  if (device.substr(0, 6) == "opencl" && alone != nullptr) {
    return Error{Errc::kUnsupported, "load " + std::string(device) + ": " +
                                         program.shape.architecture + " has " + alone +
                                         ", which runs on the cpu alone; load it on a worker with "
                                         "--device cpu"};
  }
  if (device.substr(0, 6) == "opencl") return opencl::load(device, program, options);
  return Error{Errc::kUnsupported, "load: device " + std::string(device) +
                                       " is unknown; expected cpu, opencl:N, opencl:N+M (layers "
                                       "over several), opencl:N,M (rows of "
                                       "every matrix) or opencl:N+cpu"};
}

std::vector<std::string> cpu_families() {
  return cpu::runnable_families();
}

}  // namespace holdfast::backend
