#pragma once
// The functions of OpenCL that this backend calls, as a table.
//
// The loader library is opened at run time and not linked: a worker must start on machines without
// OpenCL, and say there what is missing. Tests use the table as a seam between the backend and the
// device: they copy it, count what is created and released, and let any call fail.

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "shared/base/result.h"

namespace holdfast::opencl {

#define HOLDFAST_OPENCL_FUNCTIONS(F) \
  F(clGetPlatformIDs)                \
  F(clGetPlatformInfo)               \
  F(clGetDeviceIDs)                  \
  F(clGetDeviceInfo)                 \
  F(clCreateContext)                 \
  F(clReleaseContext)                \
  F(clCreateCommandQueue)            \
  F(clReleaseCommandQueue)           \
  F(clCreateBuffer)                  \
  F(clCreateSubBuffer)               \
  F(clReleaseMemObject)              \
  F(clCreateProgramWithSource)       \
  F(clCreateProgramWithBinary)       \
  F(clBuildProgram)                  \
  F(clGetProgramInfo)                \
  F(clGetProgramBuildInfo)           \
  F(clReleaseProgram)                \
  F(clCreateKernel)                  \
  F(clGetKernelInfo)                 \
  F(clReleaseKernel)                 \
  F(clSetKernelArg)                  \
  F(clEnqueueNDRangeKernel)          \
  F(clEnqueueWriteBuffer)            \
  F(clEnqueueReadBuffer)             \
  F(clEnqueueCopyBuffer)             \
  F(clEnqueueMapBuffer)              \
  F(clEnqueueUnmapMemObject)         \
  F(clEnqueueReadBufferRect)         \
  F(clEnqueueWriteBufferRect)        \
  F(clEnqueueCopyBufferRect)         \
  F(clEnqueueFillBuffer)             \
  F(clEnqueueMarkerWithWaitList)     \
  F(clEnqueueBarrierWithWaitList)    \
  F(clWaitForEvents)                 \
  F(clReleaseEvent)                  \
  F(clFlush)                         \
  F(clFinish)

/// Pointers to these functions; a member has the function's name.
struct Api {
#define HOLDFAST_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;
  HOLDFAST_OPENCL_FUNCTIONS(HOLDFAST_OPENCL_MEMBER)
#undef HOLDFAST_OPENCL_MEMBER
};

/// This machine's OpenCL, opened once. kUnsupported: there is no loader library, or it lacks a
/// function of OpenCL 1.2; the message says what to install. Thread-safe.
Result<const Api*> system_api();

/// The name and number of a status: "CL_OUT_OF_RESOURCES (-5)".
std::string status_text(cl_int status);

/// Owns one OpenCL object; `kRelease` is the table's member that releases it.
template <class T, auto kRelease>
class Handle {
 public:
  Handle() = default;
  Handle(const Api& api, T object) : api_(&api), object_(object) {}
  Handle(Handle&& other) noexcept
      : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) (api_->*kRelease)(object_);
  }
  T get() const { return object_; }

 private:
  const Api* api_ = nullptr;
  T object_ = nullptr;
};

using Context = Handle<cl_context, &Api::clReleaseContext>;
using QueueHandle = Handle<cl_command_queue, &Api::clReleaseCommandQueue>;
using MemoryHandle = Handle<cl_mem, &Api::clReleaseMemObject>;
using ProgramHandle = Handle<cl_program, &Api::clReleaseProgram>;
using KernelHandle = Handle<cl_kernel, &Api::clReleaseKernel>;
using EventHandle = Handle<cl_event, &Api::clReleaseEvent>;

}  // namespace holdfast::opencl
