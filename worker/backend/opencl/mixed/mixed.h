#pragma once
// One model on devices and the processor, for models that do not fit on the devices: as many of the
// first layers as fit run on the devices, the others and both ends (embedding and output) on the
// processor. The processor's products round differently, so this is a numerics class of its own,
// which names the border.

#include <memory>
#include <vector>

#include "worker/backend/api/load.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/opencl/device/devices.h"

namespace holdfast::opencl {

/// As opencl::load. kUsage: fewer layers than devices plus the processor. kMemoryExhausted: not one
/// layer fits on a device, or the others do not fit into the machine's memory.
Result<std::unique_ptr<backend::Executor>> load_mixed(const std::vector<Device>& devices,
                                                      const model::Program& program,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type);

}  // namespace holdfast::opencl
