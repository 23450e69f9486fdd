#pragma once
// Tensor parallelism, one model over several devices by output rows: each has a run of the rows of
// every large matrix (rows_part.h), computes that part of every result, and gets the rest from the
// others by an all-gather before the next operation reads it. The bits are those of one device.

#include <memory>
#include <vector>

#include "worker/backend/api/load.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/opencl/device/devices.h"

namespace holdfast::opencl {

/// As opencl::load, over these devices; a device may be named more than once. kUsage: the model is
/// too small for so many devices.
Result<std::unique_ptr<backend::Executor>> load_tensor_parallel(const std::vector<Device>& devices,
                                                                const model::Program& program,
                                                                const backend::LoadOptions& options,
                                                                cpu::KvType kv_type);

}  // namespace holdfast::opencl
