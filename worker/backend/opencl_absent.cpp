#include "worker/backend/opencl.h"

namespace holdfast::opencl {

Result<std::unique_ptr<backend::Executor>> load(std::string_view device, const model::Program&,
                                                const backend::LoadOptions&) {
  return Error{Errc::kUnsupported,
               "load " + std::string(device) + ": OpenCL is not built into this program; use cpu"};
}

}  // namespace holdfast::opencl
