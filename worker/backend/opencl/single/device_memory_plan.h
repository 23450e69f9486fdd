#pragma once
// Divides the layers of a model over devices: in proportion to a weight, as far as they fit.

#include <functional>
#include <optional>
#include <vector>

#include "worker/backend/api/load.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/opencl/device/device_context.h"

namespace holdfast::opencl {

/// Says if layers [first, end) fit on a device.
using Fits = std::function<Result<bool>(std::size_t device, std::int64_t first, std::int64_t end)>;

/// The number of layers that each device gets, in the order of the devices: in proportion to
/// `weight` as far as they fit, at least one each. nullopt: no division in this order fits. There
/// are no more devices than layers (CHECKed). Errors of `fits`.
Result<std::optional<std::vector<std::int64_t>>> share_layers(std::int64_t layers,
                                                              const std::vector<double>& weight,
                                                              const Fits& fits);

/// Layers [first, end) of a program; `leading` adds what comes before all layers, `trailing` what
/// comes after them.
model::Program layers_of(const model::Program& program, std::int64_t first, std::int64_t end,
                         bool leading, bool trailing);

/// The memory that parts of a model would take, against what their devices have free. Keeps
/// references to all its arguments.
class DeviceMemoryPlan {
 public:
  /// `ends`: the parts include embedding and output; where both are one matrix, both lie on the
  /// last device.
  DeviceMemoryPlan(const DeviceContexts& device_contexts, const model::Program& program,
                   const backend::LoadOptions& options, cpu::KvType kv_type, bool ends);

  /// The first `layers` layers, weighted by each device's free memory times its rate. Errors of
  /// planning weights.
  Result<std::optional<std::vector<std::int64_t>>> share(std::int64_t layers,
                                                         const std::vector<double>& rates) const;
  /// Device i's part of the program: layers [first, end), and the ends that belong to it.
  model::Program part(std::size_t i, std::int64_t first, std::int64_t end) const;
  /// Free bytes of device i; a device that is named more than once is shared out equally.
  std::uint64_t free_bytes(std::size_t i) const;
  /// The error for a model, or a first layer, that does not fit, with the numbers of bytes.
  Error refusal() const;

  const DeviceContexts& device_contexts() const { return device_contexts_; }
  cpu::KvType kv_type() const { return kv_type_; }

 private:
  Result<std::uint64_t> needed(std::size_t i, std::int64_t first, std::int64_t end) const;

  const DeviceContexts& device_contexts_;
  const model::Program& program_;
  const backend::LoadOptions& options_;
  const cpu::KvType kv_type_;
  const bool ends_;
  bool tied_ = false;
};

}  // namespace holdfast::opencl
