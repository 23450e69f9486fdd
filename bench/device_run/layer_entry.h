#pragma once
// The two entry points through which OpenCL's loader takes a layer. Included once by a layer, whose
// take_over() says which functions are its own.

#include <cstring>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl_layer.h>

namespace {
cl_icd_dispatch g_layer;                   // functions that the program calls
const cl_icd_dispatch* g_below = nullptr;  // functions that the layer calls
void take_over(cl_icd_dispatch& layer);
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
  take_over(g_layer);
  *layer = &g_layer;
  *made = sizeof g_layer / sizeof(void*);
  return CL_SUCCESS;
}
