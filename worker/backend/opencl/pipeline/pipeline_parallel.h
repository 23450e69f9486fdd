#pragma once
// Pipeline parallelism, one model over several devices by layers: each device has a run of layers
// with their weights and KV pages, and passes its rows of x to the next one. The bits are those of
// one device.

#include <memory>
#include <vector>

#include "worker/backend/api/load.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/opencl/device/devices.h"
#include "worker/backend/opencl/pipeline/micro_batches.h"
#include "worker/backend/opencl/single/device_memory_plan.h"
#include "worker/backend/opencl/tensor/group.h"

namespace holdfast::opencl {

/// As opencl::load, over devices in this order; a device may be named more than once. kUsage: there
/// are more devices than layers.
Result<std::unique_ptr<backend::Executor>> load_pipeline_parallel(
    const std::vector<Device>& devices, const model::Program& program,
    const backend::LoadOptions& options, cpu::KvType kv_type);

/// Runs consecutive layers on devices as the stages of a pipeline. Not thread-safe.
class PipelineParallelExecutor final : public Group {
 public:
  /// `layers`: of each part; the numerics class names them where devices differ.
  PipelineParallelExecutor(Parts&& parts, std::vector<Staging>&& host,
                           std::vector<std::int64_t> layers);

  /// A large batch goes through the devices in micro-batches, so that all of them have work.
  Result<backend::StepResult> forward(const backend::Batch& batch) override;
  /// Sets the least tokens of a micro-batch.
  void set_micro_batch_rows(std::int32_t rows) { micro_batch_rows_ = rows; }
  Result<backend::StepResult> compute_deferred_logits(std::int32_t first, std::int32_t n) override;
  /// For a load where another backend has both ends: passes x, [batch] rows `stride` floats apart,
  /// through these layers, in place.
  Result<void> pass(const backend::Batch& batch, float* x, std::int64_t stride);

 private:
  struct Stage {  // operations [first, end) of a part
    std::size_t part, first, end;
  };
  std::string class_prefix() const;
  void run_stages();
  Result<void> run_micro_batches(const std::vector<MicroBatch>& micro_batches);
  Result<void> run_micro_batch(std::size_t stage, const MicroBatch& micro_batch);
  /// Sends rows of x of a part to another one's x, or with `wait` to its inbox.
  void send_activations(std::size_t from, std::size_t to, std::int64_t rows, bool wait);

  const std::vector<std::int64_t> layers_;
  std::vector<Stage> stages_;
  MicroBatches micro_batches_;
  std::int32_t micro_batch_rows_ = MicroBatches::kRows;
  bool may_wait_ = true;  // every part has memory for rows that wait
};

/// Loads the parts. The memory plan outlives the call.
Result<std::unique_ptr<PipelineParallelExecutor>> open_layers(
    const DeviceMemoryPlan& memory_plan, const std::vector<std::int64_t>& shares,
    const backend::LoadOptions& options);

}  // namespace holdfast::opencl
