#include "tests/gpu/watched_api.h"

#include <cstring>
#include <vector>

namespace holdfast::gpu {
namespace {

const opencl::Api& real() {
  return *opencl::system_api().value();
}

/// Counts a creation; true if it is one that is to fail.
bool fails() {
  Watch& w = watch();
  ++w.creations;
  return w.creations == w.fail_at || (w.fail_every > 0 && w.creations % w.fail_every == 0);
}

/// A creation that reports its status through its last argument.
template <auto kMember, class... Args>
auto create(Args... args, cl_int* status) -> decltype((real().*kMember)(args..., status)) {
  if (fails()) {
    *status = CL_OUT_OF_HOST_MEMORY;
    return nullptr;
  }
  auto made = (real().*kMember)(args..., status);
  if (made != nullptr) ++watch().live;
  return made;
}

template <auto kMember, class T>
cl_int release(T object) {
  --watch().live;
  return (real().*kMember)(object);
}

cl_context create_context(const cl_context_properties* properties, cl_uint n,
                          const cl_device_id* devices,
                          void(CL_CALLBACK* tell)(const char*, const void*, std::size_t, void*),
                          void* user, cl_int* status) {
  return create<&opencl::Api::clCreateContext, const cl_context_properties*, cl_uint,
                const cl_device_id*,
                void(CL_CALLBACK*)(const char*, const void*, std::size_t, void*), void*>(
      properties, n, devices, tell, user, status);
}
cl_command_queue create_queue(cl_context context, cl_device_id device,
                              cl_command_queue_properties properties, cl_int* status) {
  return create<&opencl::Api::clCreateCommandQueue, cl_context, cl_device_id,
                cl_command_queue_properties>(context, device, properties, status);
}
cl_mem create_buffer(cl_context context, cl_mem_flags flags, std::size_t bytes, void* host,
                     cl_int* status) {
  if ((flags & CL_MEM_ALLOC_HOST_PTR) != 0) ++watch().pinned;
  return create<&opencl::Api::clCreateBuffer, cl_context, cl_mem_flags, std::size_t, void*>(
      context, flags, bytes, host, status);
}
cl_mem create_sub_buffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                         const void* region, cl_int* status) {
  return create<&opencl::Api::clCreateSubBuffer, cl_mem, cl_mem_flags, cl_buffer_create_type,
                const void*>(buffer, flags, type, region, status);
}
cl_program create_program(cl_context context, cl_uint n, const char** texts,
                          const std::size_t* sizes, cl_int* status) {
  ++watch().builds;
  std::string text = *texts;
  const char* other = nullptr;
  const std::size_t at = text.find("#define DOT 1");
  if (watch().ordinary_dots && at != std::string::npos) {
    text.replace(at, 13, "#define DOT 0");
    other = text.c_str();
    texts = &other;
  }
  return create<&opencl::Api::clCreateProgramWithSource, cl_context, cl_uint, const char**,
                const std::size_t*>(context, n, texts, sizes, status);
}
cl_program create_binary(cl_context context, cl_uint n, const cl_device_id* devices,
                         const std::size_t* sizes, const unsigned char** binaries, cl_int* taken,
                         cl_int* status) {
  return create<&opencl::Api::clCreateProgramWithBinary, cl_context, cl_uint, const cl_device_id*,
                const std::size_t*, const unsigned char**, cl_int*>(context, n, devices, sizes,
                                                                    binaries, taken, status);
}
cl_kernel create_kernel(cl_program program, const char* name, cl_int* status) {
  static std::set<std::pair<cl_program, std::string>> made;
  if (!watch().refuse_copies_of_kernels) {
    made.clear();
  } else if (!made.emplace(program, name).second) {
    *status = CL_OUT_OF_HOST_MEMORY;
    return nullptr;
  }
  return create<&opencl::Api::clCreateKernel, cl_program, const char*>(program, name, status);
}

cl_int fill(cl_command_queue queue, cl_mem buffer, const void* pattern, std::size_t pattern_bytes,
            std::size_t at, std::size_t bytes, cl_uint n, const cl_event* events, cl_event* event) {
  if (fails()) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return real().clEnqueueFillBuffer(queue, buffer, pattern, pattern_bytes, at, bytes, n, events,
                                    event);
}
void* map(cl_command_queue queue, cl_mem buffer, cl_bool blocking, cl_map_flags flags,
          std::size_t at, std::size_t bytes, cl_uint n, const cl_event* events, cl_event* event,
          cl_int* status) {
  if (fails()) {
    *status = CL_MAP_FAILURE;
    return nullptr;
  }
  return real().clEnqueueMapBuffer(queue, buffer, blocking, flags, at, bytes, n, events, event,
                                   status);
}
struct Write {
  cl_command_queue queue;
  cl_mem buffer;
  std::size_t at, bytes;
  const void* from;
};
std::vector<Write> g_late;

void write_now() {
  for (const Write& w : g_late) {
    real().clEnqueueWriteBuffer(w.queue, w.buffer, CL_TRUE, w.at, w.bytes, w.from, 0, nullptr,
                                nullptr);
  }
  g_late.clear();
}

cl_int write(cl_command_queue queue, cl_mem buffer, cl_bool blocking, std::size_t at,
             std::size_t bytes, const void* from, cl_uint n, const cl_event* events,
             cl_event* event) {
  if (fails()) return CL_OUT_OF_RESOURCES;
  ++watch().writes;
  if (blocking == CL_TRUE) ++watch().blocking;
  if (watch().late_writes && blocking == CL_FALSE) {
    ++watch().late;
    g_late.push_back({queue, buffer, at, bytes, from});
    return CL_SUCCESS;
  }
  return real().clEnqueueWriteBuffer(queue, buffer, blocking, at, bytes, from, n, events, event);
}
cl_int read(cl_command_queue queue, cl_mem buffer, cl_bool blocking, std::size_t at,
            std::size_t bytes, void* to, cl_uint n, const cl_event* events, cl_event* event) {
  if (blocking == CL_TRUE) ++watch().blocking;
  return real().clEnqueueReadBuffer(queue, buffer, blocking, at, bytes, to, n, events, event);
}
cl_int set_argument(cl_kernel kernel, cl_uint at, std::size_t bytes, const void* value) {
  if (++watch().arguments == watch().fail_argument_at) return CL_OUT_OF_HOST_MEMORY;
  return real().clSetKernelArg(kernel, at, bytes, value);
}
std::pair<cl_program, std::string> function_of(cl_kernel kernel) {
  cl_program program = nullptr;
  char name[128] = {};
  real().clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof(cl_program),
                         static_cast<void*>(&program), nullptr);
  real().clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, nullptr);
  return {program, name};
}
cl_int wait_for_events(cl_uint n, const cl_event* events) {
  ++watch().waits;
  write_now();
  return real().clWaitForEvents(n, events);
}
cl_int finish(cl_command_queue queue) {
  ++watch().finishes;
  write_now();
  return real().clFinish(queue);
}
cl_int launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
              const std::size_t* offset, const std::size_t* all, const std::size_t* group,
              cl_uint n, const cl_event* events, cl_event* event) {
  ++watch().launches;
  watch().kernels.insert(function_of(kernel));
  if (watch().fail_launches != CL_SUCCESS) return watch().fail_launches;
  const cl_int status = real().clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, all, group,
                                                      n, events, event);
  if (event != nullptr && *event != nullptr) ++watch().live;
  return status;
}
cl_int marker(cl_command_queue queue, cl_uint n, const cl_event* events, cl_event* event) {
  const cl_int status = real().clEnqueueMarkerWithWaitList(queue, n, events, event);
  if (event != nullptr && *event != nullptr) ++watch().live;
  return status;
}
cl_int copy_rect(cl_command_queue queue, cl_mem from, cl_mem to, const std::size_t* from_at,
                 const std::size_t* to_at, const std::size_t* size, std::size_t from_pitch,
                 std::size_t from_slice, std::size_t to_pitch, std::size_t to_slice, cl_uint n,
                 const cl_event* events, cl_event* event) {
  ++watch().copies;
  if (watch().lose_copies) return CL_SUCCESS;
  return real().clEnqueueCopyBufferRect(queue, from, to, from_at, to_at, size, from_pitch,
                                        from_slice, to_pitch, to_slice, n, events, event);
}
cl_int device_info(cl_device_id device, cl_device_info what, std::size_t bytes, void* value,
                   std::size_t* needed) {
  const std::string& extensions = watch().extensions;
  if (what == CL_DEVICE_EXTENSIONS && !extensions.empty()) {
    if (needed != nullptr) *needed = extensions.size() + 1;
    if (value != nullptr) std::memcpy(value, extensions.c_str(), extensions.size() + 1);
    return CL_SUCCESS;
  }
  const cl_int status = real().clGetDeviceInfo(device, what, bytes, value, needed);
  const auto other = [&](cl_device_info which, auto to) {
    if (what == which && to != 0 && value != nullptr) std::memcpy(value, &to, sizeof to);
  };
  other(CL_DEVICE_MAX_MEM_ALLOC_SIZE, watch().max_alloc);
  other(CL_DEVICE_GLOBAL_MEM_SIZE, watch().memory);
  other(CL_DEVICE_TYPE, watch().type);
  other(CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, watch().vector_width);
  return status;
}

opencl::Api make_watched() {
  opencl::Api api = real();
  api.clCreateContext = &create_context;
  api.clCreateCommandQueue = &create_queue;
  api.clCreateBuffer = &create_buffer;
  api.clCreateSubBuffer = &create_sub_buffer;
  api.clCreateProgramWithSource = &create_program;
  api.clCreateProgramWithBinary = &create_binary;
  api.clCreateKernel = &create_kernel;
  api.clReleaseContext = &release<&opencl::Api::clReleaseContext, cl_context>;
  api.clReleaseCommandQueue = &release<&opencl::Api::clReleaseCommandQueue, cl_command_queue>;
  api.clReleaseMemObject = &release<&opencl::Api::clReleaseMemObject, cl_mem>;
  api.clReleaseProgram = &release<&opencl::Api::clReleaseProgram, cl_program>;
  api.clReleaseKernel = &release<&opencl::Api::clReleaseKernel, cl_kernel>;
  api.clReleaseEvent = &release<&opencl::Api::clReleaseEvent, cl_event>;
  api.clEnqueueFillBuffer = &fill;
  api.clEnqueueMapBuffer = &map;
  api.clEnqueueWriteBuffer = &write;
  api.clEnqueueReadBuffer = &read;
  api.clSetKernelArg = &set_argument;
  api.clWaitForEvents = &wait_for_events;
  api.clFinish = &finish;
  api.clEnqueueNDRangeKernel = &launch;
  api.clEnqueueMarkerWithWaitList = &marker;
  api.clEnqueueCopyBufferRect = &copy_rect;
  api.clGetDeviceInfo = &device_info;
  return api;
}

}  // namespace

Watch& watch() {
  static Watch w;
  return w;
}

const opencl::Api& watched_api() {
  static const opencl::Api api = make_watched();
  return api;
}

}  // namespace holdfast::gpu
