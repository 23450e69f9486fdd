#pragma once
// Several devices for tests: PoCL, where it is the driver, is told to give four. Included once in a
// program, before it uses OpenCL.

#include <cstdlib>

#include "worker/backend/api/opencl.h"

namespace holdfast::gpu {

/// Devices run at the same time. PoCL 3.1 fails an assertion of its own where two of them use
/// several specializations of one kernel, so it is told to make none.
inline const bool g_devices_requested =
    setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0) == 0 &&
    setenv("POCL_DEVICES", "pthread pthread pthread pthread", 0) == 0;

/// A name such as "opencl:0+1" or "opencl:0,1,2,3" with n devices; where there are fewer, devices
/// are named again.
inline std::string several_devices(std::size_t n, char between) {
  const auto found = opencl::find_devices(false);
  const std::size_t there = found.has_value() ? found->size() : 1;
  std::string name = "opencl:";
  for (std::size_t i = 0; i < n; ++i) {
    if (i > 0) name += between;
    name += std::to_string(g_devices_requested ? i % there : 0);
  }
  return name;
}

}  // namespace holdfast::gpu
