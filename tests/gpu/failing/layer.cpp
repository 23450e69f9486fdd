// A layer of OpenCL's loader (OPENCL_LAYERS names it) for tests of devices that fail in the middle
// of a run: if the file that HOLDFAST_TEST_DEVICE_FAILS names exists, the next process that
// launches a kernel deletes it, and this launch and all later ones of that process fail.

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "bench/device_run/layer_entry.h"

namespace {

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

void take_over(cl_icd_dispatch& layer) {
  layer.clEnqueueNDRangeKernel = &launch;
}

}  // namespace
