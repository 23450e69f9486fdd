#pragma once
// A program prepared for this machine's processor: packed weights, KV pages, scratch, threads.

#include <memory>
#include <string>
#include <vector>

#include "worker/backend/api/load.h"
#include "worker/backend/cpu/attention.h"
#include "worker/backend/cpu/delta_net.h"
#include "worker/backend/cpu/embedding_lookup.h"
#include "worker/backend/cpu/experts.h"
#include "worker/backend/cpu/feed_forward.h"
#include "worker/backend/cpu/forward_context.h"
#include "worker/backend/cpu/latent.h"
#include "worker/backend/cpu/logits.h"
#include "worker/backend/cpu/norms.h"
#include "worker/backend/cpu/qkv.h"
#include "worker/backend/cpu/router.h"

namespace holdfast::cpu {

/// Kernels revision: changed whenever the bits of any family change on any model.
inline constexpr char kKernelsRev[] = "r4";

/// Returns Capabilities::class_prefix of a family.
std::string class_prefix_of(const Kernels& kernels);

/// The executor of the cpu backend: the threads of its pool run each operation together.
class CpuExecutor final : public backend::Executor {
 public:
  /// Loads a program. Errors as backend::load.
  static Result<std::unique_ptr<CpuExecutor>> load(const model::Program& program,
                                                   const backend::LoadOptions& options);
  explicit CpuExecutor(std::unique_ptr<ForwardContext> context);

  const backend::Capabilities& capabilities() const override { return capabilities_; }
  Result<backend::StepResult> forward(const backend::Batch& batch) override;
  Result<backend::StepResult> compute_deferred_logits(std::int32_t first, std::int32_t n) override;
  backend::Memory memory() const override;
  void on_workers(const std::function<void(int)>& work) override { context_->pool.run(work); }
  backend::ExecutorCounters counters() const override {
    return {context_->pool.waits(), region_count()};
  }

  // A forward in two parts, for a model whose first layers run on another device: embed() makes the
  // residual rows of the batch, the caller takes them through those layers and brings them back,
  // and forward_rest() goes on.
  void embed(const backend::Batch& batch);
  Result<backend::StepResult> forward_rest();
  FloatRows residual_rows() { return context_->buffers.residual; }  // [batch][width]

 private:
  void plan_batch(const backend::Batch& batch);
  void compact_batch();
  void run_operations(std::size_t first, std::size_t end);
  void run_op(const PackedOp& op, int worker);
  Result<backend::StepResult> result() const;

  const std::unique_ptr<ForwardContext> context_;
  const backend::Capabilities capabilities_;
  std::uint64_t step_ = 0;
  EmbeddingLookup embedding_lookup_;
  QkvProjection qkv_projection_;
  Attention attention_;
  LatentAttention latent_attention_;
  DeltaNet delta_net_;
  FeedForward feed_forward_;
  Norms norms_;
  Router router_;
  Experts experts_;
  Logits logits_;
};

}  // namespace holdfast::cpu
