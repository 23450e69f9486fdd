#pragma once
// One model over several devices by layers: each device has a run of them with their weights and KV
// pages, and hands its rows of x to the next one through the host. The bits are those of one
// device.

#include <memory>
#include <vector>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/opencl/devices.h"

namespace holdfast::opencl {

/// How many layers each device gets: in proportion to `memory`, at least one each. Wants no more
/// devices than layers.
std::vector<std::int64_t> share_layers(std::int64_t layers,
                                       const std::vector<std::uint64_t>& memory);

/// As opencl::load, over devices in this order; a device may be named more than once. kUsage: more
/// devices than layers.
Result<std::unique_ptr<backend::Executor>> load_split(const std::vector<Device>& devices,
                                                      const model::Program& program,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type);

}  // namespace holdfast::opencl
