// A layer of OpenCL's loader (OPENCL_LAYERS names it) for tests of devices that fail in the middle
// of a run: when the file that HOLDFAST_TEST_DEVICE_FAILS names is there, the next process that
// launches a kernel takes it away, and this launch and all later ones of that process fail.

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl_layer.h>

namespace {

cl_icd_dispatch g_layer;
const cl_icd_dispatch* g_below = nullptr;
std::atomic<bool> g_failed{false};

cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                          const size_t* offset, const size_t* all, const size_t* group, cl_uint n,
                          const cl_event* events, cl_event* event) {
  const char* file = std::getenv("HOLDFAST_TEST_DEVICE_FAILS");
  if (file != nullptr && access(file, F_OK) == 0 && unlink(file) == 0) g_failed = true;
  if (g_failed) return CL_OUT_OF_RESOURCES;
  return g_below->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, all, group, n, events,
                                         event);
}

}  // namespace

extern "C" cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t bytes, void* value,
                                             size_t* needed) {
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  if (what != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  if (value != nullptr && bytes >= sizeof version) std::memcpy(value, &version, sizeof version);
  if (needed != nullptr) *needed = sizeof version;
  return CL_SUCCESS;
}

extern "C" cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch* below,
                                          cl_uint* made, const cl_icd_dispatch** layer) {
  if (entries < sizeof g_layer / sizeof(void*)) return CL_INVALID_VALUE;
  g_below = below;
  std::memcpy(&g_layer, below, sizeof g_layer);
  g_layer.clEnqueueNDRangeKernel = &launch;
  *layer = &g_layer;
  *made = sizeof g_layer / sizeof(void*);
  return CL_SUCCESS;
}
