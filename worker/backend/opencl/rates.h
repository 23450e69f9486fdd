#pragma once
// How fast devices are against each other, for dividing layers among unlike ones.

#include <string>
#include <vector>

#include "worker/backend/opencl/devices.h"

namespace holdfast::opencl {

/// 1 for each where all have one name and driver; else what their copies give (copy_rate in
/// probe.h). That is measured once and kept in `cache_dir`: bits depend on the division where
/// devices are not alike, and it must come out the same at the next start.
std::vector<double> relative_rates(const std::vector<Device>& devices,
                                   const std::string& cache_dir);

}  // namespace holdfast::opencl
