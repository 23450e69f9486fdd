#pragma once
// A program, or a part of one, that runs on one OpenCL device.

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/backend/api/executor.h"
#include "worker/backend/api/load.h"
#include "worker/backend/opencl/single/device_model.h"
#include "worker/backend/opencl/single/operation_launcher.h"
#include "worker/backend/opencl/single/step_batch.h"

namespace holdfast::opencl {

/// Runs a program, or a part of one, on one device. Not thread-safe: one thread drives it.
class OpenclExecutor final : public backend::Executor {
 public:
  const backend::Capabilities& capabilities() const override { return capabilities_; }
  Result<backend::StepResult> forward(const backend::Batch& batch) override;
  Result<void> rehearse(const backend::Batch& batch) override;
  Result<backend::StepResult> compute_deferred_logits(std::int32_t first, std::int32_t n) override;
  backend::Memory memory() const override;
  backend::ExecutorCounters counters() const override { return {0, buffer_count()}; }

  // A forward pass in steps, for a model over several devices (group.h). begin() takes the batch,
  // run() enqueues operations [first, end) of the program, settle() waits for them. Between the
  // steps, rows move from device to device.
  void begin(const backend::Batch& batch);
  /// Replaces begin() for compute_deferred_logits: the same batch, with other rows of logits.
  void begin_deferred_logits(std::int32_t first, std::int32_t n);
  void run(std::size_t first, std::size_t end);
  /// kModelFailed: the device failed.
  Result<void> settle();
  /// settle(), then the requested results, checked.
  Result<backend::StepResult> finish();
  /// Replaces finish() for a batch in micro-batches, each with its own begin(): give() enqueues
  /// reading a micro-batch's logits, which follow `first` rows of earlier ones; conclude() gives
  /// the checked results of the whole batch at the end.
  void give(std::int32_t first) { read_logits(first); }
  Result<backend::StepResult> conclude(const backend::Batch& batch);
  /// Memory of a pass in which rows of x may wait while nothing runs here. Null buffer: it is too
  /// small.
  RowsAt inbox() const;
  /// kNumericsNan: one of the batch's logits or outputs is not finite. logits: [logit rows][vocab].
  Result<void> check_results(const float* logits, std::int64_t vocab, const float* hidden) const;
  const std::vector<DeviceOp>& operations() const { return model_.ops; }
  /// The number of operations before the first layer, which make x of the tokens; 0 where another
  /// device has them.
  std::size_t leading() const;
  Queue& queue() { return model_.queue; }
  Result<Staging> take_staging(std::uint64_t bytes, const std::string& what) const {
    return Staging::take(*model_.device_context->device().api, model_.device_context->context(),
                         model_.queue.get(), bytes, what);
  }
  const Scratch& scratch() const { return model_.scratch; }
  const backend::Limits& limits() const { return model_.limits; }
  std::int64_t width() const { return model_.shape.width; }
  std::int64_t batch_rows() const { return batch_.rows(); }
  std::int64_t result_rows(std::size_t op) const;  // the batch's, or expert slots
  std::int32_t logit_row_count() const { return batch_.logit_row_count; }
  bool hidden_requested() const { return batch_.hidden_requested; }
  /// Bytes that the load takes or has taken.
  std::uint64_t bytes_required() const { return model_.bytes_required; }

 private:
  OpenclExecutor(std::shared_ptr<DeviceContext> device_context, const model::Program& program,
                 const backend::LoadOptions& options, cpu::KvType kv_type);
  friend class Loader;

  Result<void> check_wants(const backend::Batch& batch) const;
  std::size_t last_needed() const;
  bool marks(std::int32_t layer) const;
  Result<backend::StepResult> checked();
  backend::StepResult result() const;
  void read_logits(std::int32_t first);
  void read_top(std::int32_t first);
  Result<void> check_top() const;
  void send_inputs();      // inputs.cpp
  void send_logit_rows();  // inputs.cpp
  void prepare(std::int32_t rows);

  DeviceModel model_;
  const backend::Capabilities capabilities_;
  StepBatch batch_;
  std::uint64_t step_ = 0;
  OperationLauncher launcher_{model_, batch_};
  Staging host_;        // the inputs, then the results
  bool saved_ = false;  // the kernels have run once and are in the cache

  std::int32_t layer_ = -1;                         // of the last operation that was enqueued
  std::chrono::steady_clock::time_point begun_at_;  // of the step
  bool quick_ = false;                              // the last short step was (kQuickStep)
  std::span<float> logits_;                         // [logit_rows][vocab], in host_ as the next two
  std::span<std::int32_t> greatest_;                // [logit_rows]
  std::span<backend::Ranked> top_;                  // [logit_rows][kTopMost]
  std::vector<float> hidden_;  // [batch][x stride]: rows of x after the last layer
};

}  // namespace holdfast::opencl
