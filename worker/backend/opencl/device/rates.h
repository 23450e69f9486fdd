#pragma once
// Relative speeds of devices, for dividing layers among different ones.

#include <string>
#include <vector>

#include "worker/backend/opencl/device/devices.h"

namespace holdfast::opencl {

/// 1 for each device where all have one name and driver; else their copy rates (copy_rate in
/// probe.h). These are measured once and stored in `cache_dir`: where devices differ, bits depend
/// on the division, which must be the same at the next start.
std::vector<double> relative_rates(const std::vector<Device>& devices,
                                   const std::string& cache_dir);

}  // namespace holdfast::opencl
