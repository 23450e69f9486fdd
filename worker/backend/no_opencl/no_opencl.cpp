// Stands in for worker/backend/opencl where the build found no OpenCL headers.

#include "worker/backend/api/opencl.h"

namespace holdfast::opencl {
namespace {

Error not_built(const std::string& what) {
  return {Errc::kUnsupported, what +
                                  ": OpenCL is not built into this program; use cpu, or build "
                                  "where the package opencl-headers is"};
}

}  // namespace

Result<std::vector<Found>> find_devices(bool) {
  return not_built("find devices");
}

Result<Found> find_device(std::string_view device, const std::string&) {
  return not_built("find " + std::string(device));
}

std::string kernels_revision() {
  return {};
}

Result<std::string> clblast_version() {
  return not_built("open CLBlast");
}

Result<std::unique_ptr<backend::Executor>> load(std::string_view device, const model::Program&,
                                                const backend::LoadOptions&) {
  return not_built("load " + std::string(device));
}

}  // namespace holdfast::opencl
