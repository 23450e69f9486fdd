#pragma once
// Several devices for tests: PoCL is asked for four of them where it is what runs. Included once in
// a program, before anything of OpenCL runs there.

#include <cstdlib>

#include "worker/backend/opencl.h"

namespace holdfast::gpu {

/// They run at the same time. PoCL 3.1 fails in an assertion of its own where two of them use
/// several specialisations of one kernel, so it makes none.
inline const bool g_asked_for_devices =
    setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0) == 0 &&
    setenv("POCL_DEVICES", "pthread pthread pthread pthread", 0) == 0;

/// "opencl:0+1", "opencl:0,1,2,3": so many devices; where there are fewer, one is named again.
inline std::string several_devices(std::size_t n, char between) {
  const auto found = opencl::find_devices(false);
  const std::size_t there = found.has_value() ? found->size() : 1;
  std::string name = "opencl:";
  for (std::size_t i = 0; i < n; ++i) {
    if (i > 0) name += between;
    name += std::to_string(g_asked_for_devices ? i % there : 0);
  }
  return name;
}

}  // namespace holdfast::gpu
