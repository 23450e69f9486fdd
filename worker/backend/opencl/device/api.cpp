#include "worker/backend/opencl/device/api.h"

#include <dlfcn.h>

namespace holdfast::opencl {
namespace {

Result<Api> open_api() {
  const auto fail = [](const std::string& cause) {
    return Error{Errc::kUnsupported,
                 "open OpenCL: " + cause +
                     "; expected libOpenCL.so.1 (package ocl-icd-libopencl1) and the device's own "
                     "driver"};
  };
  // Never closed: drivers handle that badly, and handles may outlive the code that opened it.
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(dlerror());
  Api api;
  std::string missing;
  const auto find = [&](const char* name) {
    void* function = dlsym(library, name);
    if (function == nullptr) missing += std::string(missing.empty() ? "" : ", ") + name;
    return function;
  };
#define HOLDFAST_OPENCL_FIND(name) api.name = reinterpret_cast<decltype(api.name)>(find(#name));
  HOLDFAST_OPENCL_FUNCTIONS(HOLDFAST_OPENCL_FIND)
#undef HOLDFAST_OPENCL_FIND
  if (!missing.empty()) return fail("the loader lacks " + missing);
  return api;
}

struct StatusName {
  cl_int status;
  const char* name;
};
#define HOLDFAST_STATUS(name) \
  { name, #name }
constexpr StatusName kStatusNames[] = {
    HOLDFAST_STATUS(CL_DEVICE_NOT_FOUND),
    HOLDFAST_STATUS(CL_DEVICE_NOT_AVAILABLE),
    HOLDFAST_STATUS(CL_COMPILER_NOT_AVAILABLE),
    HOLDFAST_STATUS(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    HOLDFAST_STATUS(CL_OUT_OF_RESOURCES),
    HOLDFAST_STATUS(CL_OUT_OF_HOST_MEMORY),
    HOLDFAST_STATUS(CL_BUILD_PROGRAM_FAILURE),
    HOLDFAST_STATUS(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    HOLDFAST_STATUS(CL_INVALID_VALUE),
    HOLDFAST_STATUS(CL_INVALID_DEVICE),
    HOLDFAST_STATUS(CL_INVALID_BINARY),
    HOLDFAST_STATUS(CL_INVALID_BUILD_OPTIONS),
    HOLDFAST_STATUS(CL_INVALID_PROGRAM_EXECUTABLE),
    HOLDFAST_STATUS(CL_INVALID_KERNEL_NAME),
    HOLDFAST_STATUS(CL_INVALID_KERNEL_ARGS),
    HOLDFAST_STATUS(CL_INVALID_ARG_INDEX),
    HOLDFAST_STATUS(CL_INVALID_ARG_VALUE),
    HOLDFAST_STATUS(CL_INVALID_ARG_SIZE),
    HOLDFAST_STATUS(CL_INVALID_WORK_GROUP_SIZE),
    HOLDFAST_STATUS(CL_INVALID_BUFFER_SIZE),
};

}  // namespace

Result<const Api*> system_api() {
  static const Result<Api> api = open_api();
  if (!api.has_value()) return api.error();
  return &api.value();
}

std::string status_text(cl_int status) {
  for (const StatusName& entry : kStatusNames) {
    if (entry.status == status) {
      return std::string(entry.name) + " (" + std::to_string(status) + ")";
    }
  }
  return "OpenCL status " + std::to_string(status);
}

}  // namespace holdfast::opencl
