#include "worker/backend/opencl/api.h"

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
  // Never closed: drivers do not like it, and handles may outlive whoever opened it.
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(dlerror());
  Api api;
  std::string missing;
  const auto find = [&](const char* name) {
    void* function = dlsym(library, name);
    if (function == nullptr) missing += std::string(missing.empty() ? "" : ", ") + name;
    return function;
  };
#define HF_OPENCL_FIND(name) api.name = reinterpret_cast<decltype(api.name)>(find(#name));
  HF_OPENCL_FUNCTIONS(HF_OPENCL_FIND)
#undef HF_OPENCL_FIND
  if (!missing.empty()) return fail("the loader lacks " + missing);
  return api;
}

struct StatusName {
  cl_int status;
  const char* name;
};
#define HF_STATUS(name) \
  { name, #name }
constexpr StatusName kStatusNames[] = {
    HF_STATUS(CL_DEVICE_NOT_FOUND),
    HF_STATUS(CL_DEVICE_NOT_AVAILABLE),
    HF_STATUS(CL_COMPILER_NOT_AVAILABLE),
    HF_STATUS(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    HF_STATUS(CL_OUT_OF_RESOURCES),
    HF_STATUS(CL_OUT_OF_HOST_MEMORY),
    HF_STATUS(CL_BUILD_PROGRAM_FAILURE),
    HF_STATUS(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    HF_STATUS(CL_INVALID_VALUE),
    HF_STATUS(CL_INVALID_DEVICE),
    HF_STATUS(CL_INVALID_BINARY),
    HF_STATUS(CL_INVALID_BUILD_OPTIONS),
    HF_STATUS(CL_INVALID_PROGRAM_EXECUTABLE),
    HF_STATUS(CL_INVALID_KERNEL_NAME),
    HF_STATUS(CL_INVALID_KERNEL_ARGS),
    HF_STATUS(CL_INVALID_ARG_INDEX),
    HF_STATUS(CL_INVALID_ARG_VALUE),
    HF_STATUS(CL_INVALID_ARG_SIZE),
    HF_STATUS(CL_INVALID_WORK_GROUP_SIZE),
    HF_STATUS(CL_INVALID_BUFFER_SIZE),
};

}  // namespace

Result<const Api*> system_api() {
  static const Result<Api> api = open_api();
  if (!api.has_value()) return api.error();
  return &api.value();
}

std::string status_text(cl_int status) {
  for (const StatusName& known : kStatusNames) {
    if (known.status == status) {
      return std::string(known.name) + " (" + std::to_string(status) + ")";
    }
  }
  return "OpenCL status " + std::to_string(status);
}

}  // namespace holdfast::opencl
