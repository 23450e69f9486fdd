#include "worker/backend/opencl/mixed/mixed.h"

#include "worker/backend/cpu/executor.h"
#include "worker/backend/opencl/device/rates.h"
#include "worker/backend/opencl/pipeline/pipeline_parallel.h"
#include "worker/backend/opencl/single/loader.h"

namespace holdfast::opencl {
namespace {

class MixedExecutor final : public backend::Executor {
 public:
  MixedExecutor(std::unique_ptr<PipelineParallelExecutor> first,
                std::unique_ptr<cpu::CpuExecutor> rest, std::int64_t border)
      : first_(std::move(first)), rest_(std::move(rest)) {
    // The border decides the bits.
    capabilities_.class_prefix = first_->capabilities().class_prefix + ":" +
                                 std::to_string(border) + "+" + rest_->capabilities().class_prefix;
  }

  const backend::Capabilities& capabilities() const override { return capabilities_; }
  Result<backend::StepResult> forward(const backend::Batch& batch) override {
    rest_->embed(batch);
    const cpu::FloatRows rows = rest_->residual_rows();
    HOLDFAST_CHECKED(first_->pass(batch, rows.at, rows.stride));
    return rest_->forward_rest();
  }
  Result<backend::StepResult> compute_deferred_logits(std::int32_t first, std::int32_t n) override {
    return rest_->compute_deferred_logits(first, n);
  }
  backend::Memory memory() const override {
    backend::Memory all = first_->memory();
    const backend::Memory rest = rest_->memory();
    all.weights += rest.weights;
    all.kv += rest.kv;
    all.scratch += rest.scratch;
    all.found_packed = rest.found_packed;
    return all;
  }
  backend::ExecutorCounters counters() const override {
    return {0, first_->counters().allocations + rest_->counters().allocations};
  }

 private:
  const std::unique_ptr<PipelineParallelExecutor> first_;
  const std::unique_ptr<cpu::CpuExecutor> rest_;
  backend::Capabilities capabilities_;
};

/// Layers from `first` on as a program of their own, with both ends.
model::Program rest_of(const model::Program& program, std::int64_t first) {
  model::Program rest = layers_of(program, first, program.shape.layers, true, true);
  rest.shape.layers -= first;
  for (model::Op& op : rest.ops) {
    if (op.layer >= 0) op.layer -= static_cast<std::int32_t>(first);
  }
  return rest;
}

/// The most layers that fit on the devices, by device; nullopt: not one for each of them.
Result<std::optional<std::vector<std::int64_t>>> most_layers(const DeviceMemoryPlan& memory_plan,
                                                             std::int64_t most,
                                                             const std::vector<double>& rates) {
  std::optional<std::vector<std::int64_t>> best;
  std::int64_t low = static_cast<std::int64_t>(rates.size()), high = most;
  while (low <= high) {
    const std::int64_t middle = low + (high - low) / 2;
    HOLDFAST_TRY(auto shares, memory_plan.share(middle, rates));
    if (shares) {
      best = std::move(shares);
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return best;
}

}  // namespace

Result<std::unique_ptr<backend::Executor>> load_mixed(const std::vector<Device>& devices,
                                                      const model::Program& program,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type) {
  const std::int64_t layers = program.shape.layers;
  if (static_cast<std::int64_t>(devices.size()) + 1 > layers) {
    return refuse_load(Errc::kUsage, std::to_string(layers) + " layers over " +
                                         std::to_string(devices.size()) +
                                         " devices and the processor; expected a layer for each");
  }
  HOLDFAST_TRY(const DeviceContexts device_contexts, DeviceContexts::open(devices));
  const DeviceMemoryPlan memory_plan(device_contexts, program, options, kv_type, false);
  HOLDFAST_TRY(const auto shares,
               most_layers(memory_plan, layers - 1, relative_rates(devices, options.cache_dir)));
  if (!shares) return memory_plan.refusal();
  std::int64_t border = 0;
  for (const std::int64_t n : *shares) border += n;
  backend::LoadOptions on_devices = options_of_part(options, 0, 2);
  HOLDFAST_TRY(auto first, open_layers(memory_plan, *shares, on_devices));
  backend::LoadOptions on_processor = options_of_part(options, 1, 2);
  on_processor.kernels.clear();
  if (!options.weight_cache_key.empty()) {
    on_processor.weight_cache_key += ", layers from " + std::to_string(border) + " on";
  }
  HOLDFAST_TRY(auto rest, cpu::CpuExecutor::load(rest_of(program, border), on_processor));
  return std::unique_ptr<backend::Executor>(
      std::make_unique<MixedExecutor>(std::move(first), std::move(rest), border));
}

}  // namespace holdfast::opencl
