// One forward pass: every worker walks the program, with a barrier after each operation.

#include <xmmintrin.h>

#include <algorithm>
#include <cstring>

#include "shared/base/progress.h"
#include "worker/backend/cpu/executor.h"
#include "worker/backend/cpu/kernels_revision.h"

namespace holdfast::cpu {
namespace {

constexpr unsigned kMxcsrDefault = 0x1f80;  // round to nearest, subnormals kept, no traps
constexpr unsigned kMxcsrFlags = 0x3f;      // sticky exception flags

/// Sets the thread's floating-point mode for the time of a forward: a library may have changed it.
class FloatMode {
 public:
  FloatMode() : before_(_mm_getcsr()) {
    _mm_setcsr(kMxcsrDefault);
    CHECK((_mm_getcsr() & ~kMxcsrFlags) == kMxcsrDefault);
  }
  ~FloatMode() { _mm_setcsr(before_); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  unsigned before_;
};

backend::Capabilities capabilities_of(const ForwardContext& context) {
  backend::Capabilities c;
  c.class_prefix = class_prefix_of(context.kernels);
  c.prefill_heavy_ratio = context.kernels.prefill_heavy_ratio;
  c.workers = context.pool.size();
  return c;
}

}  // namespace

std::string class_prefix_of(const Kernels& kernels) {
  // Where there are prefill-heavy kernels, the rule which sequences take them decides bits too.
  const std::string rule =
      kernels.prefill_heavy == nullptr ? "" : ":" + std::to_string(kernels.prefill_heavy_ratio);
  return std::string("cpu/") + kernels.name + "/" + kernels_revision() + rule;
}

CpuExecutor::CpuExecutor(std::unique_ptr<ForwardContext> context)
    : context_(std::move(context)),
      capabilities_(capabilities_of(*context_)),
      embedding_lookup_(*context_),
      qkv_projection_(*context_),
      attention_(*context_),
      latent_attention_(*context_),
      delta_net_(*context_),
      feed_forward_(*context_),
      norms_(*context_),
      router_(*context_),
      experts_(*context_),
      logits_(*context_) {}

backend::Memory CpuExecutor::memory() const {
  const LoadedMemory& m = context_->memory;
  return {m.weights.bytes(), m.kv.bytes(), m.scratch.bytes() + m.states.bytes(), m.found_packed};
}

Result<backend::StepResult> CpuExecutor::forward(const backend::Batch& batch) {
  plan_batch(batch);
  if (context_->batch.rows() > 0) run_operations(0, context_->program.ops.size());
  return result();
}

void CpuExecutor::embed(const backend::Batch& batch) {
  plan_batch(batch);
  run_operations(0, context_->program.leading);
}

Result<backend::StepResult> CpuExecutor::forward_rest() {
  run_operations(context_->program.leading, context_->program.ops.size());
  return result();
}

Result<backend::StepResult> CpuExecutor::compute_deferred_logits(std::int32_t first,
                                                                 std::int32_t n) {
  ++step_;
  CHECK(n > 0 && n <= context_->limits.logit_rows);
  context_->batch.request_logits(context_->batch.row_of(first), n);
  const PackedOp& op = context_->program.ops.back();  // kNormLogits: the loader has checked that
  context_->tickets.of(op).store(0, std::memory_order_relaxed);
  context_->pool.run([this, &op](int worker) {
    const FloatMode mode;
    logits_.run(op, worker);
  });
  note_progress();
  return result();
}

/// Views of the running step's results, or the error of one that is not finite.
Result<backend::StepResult> CpuExecutor::result() const {
  const StepBatch& batch = context_->batch;
  if (batch.bad_token() >= 0) {
    const Token& token = batch.token(batch.bad_token());
    return Error{Errc::kNumericsNan, "forward: segment " + std::to_string(token.segment) +
                                         ", position " + std::to_string(token.position) +
                                         ": a logit or an output is NaN or infinite"};
  }
  const Buffers& b = context_->buffers;
  backend::ResultViews views;
  views.logit_rows = static_cast<std::int32_t>(batch.logit_tokens().size());
  views.logits = {b.logits.at, b.logits.stride};
  views.maxima = {b.logit_maxima.at, b.logit_maxima.stride};
  if (batch.hidden_requested()) {
    views.hidden = {b.residual.at, b.residual.stride};
    views.hidden_rows = batch.rows();
    views.hidden_tokens = batch.tokens_left();
  }
  return backend::StepResult(views, step_);
}

void CpuExecutor::plan_batch(const backend::Batch& batch) {
  ++step_;
  context_->batch.plan(batch);
  context_->tickets.reset();
}

/// Drops the rows without a result from all buffers that live across the operations that every
/// token needs. Run by one thread while the others wait.
void CpuExecutor::compact_batch() {
  const Buffers& b = context_->buffers;
  const FloatRows live[] = {b.residual, b.query, b.attention_out, b.gate, b.layer_input};
  context_->batch.compact(live);
}

void CpuExecutor::run_operations(std::size_t first, std::size_t end) {
  const PackedProgram& program = context_->program;
  StepBatch& batch = context_->batch;
  context_->numa_nodes.enter(0);  // the caller may be another thread than the one that loaded
  if (batch.compacts_rows() && !batch.has_outputs()) {
    end = std::min(end, std::max(first, program.for_all));
  }
  context_->pool.run([&](int worker) {
    const FloatMode mode;
    for (std::size_t i = first; i < end; ++i) {
      if (i == program.for_all && batch.compacts_rows()) {
        if (worker == 0) compact_batch();
        context_->pool.barrier();
      }
      run_op(program.ops[i], worker);
      context_->pool.barrier();
      if (worker == 0) note_progress();
    }
  });
}

void CpuExecutor::run_op(const PackedOp& op, int worker) {
  switch (op.kind) {
    case model::OpKind::kEmbed:
    case model::OpKind::kEmbedScaleAdd:
    case model::OpKind::kLayerInputs:
      return embedding_lookup_.run(op, worker);
    case model::OpKind::kNormQkv:
    case model::OpKind::kQkNorm:
      return qkv_projection_.run(op, worker);
    case model::OpKind::kAttention:
    case model::OpKind::kGateHeads:
      return attention_.run(op, worker);
    case model::OpKind::kNormLatent:
    case model::OpKind::kLatentQuery:
    case model::OpKind::kLatentHeads:
    case model::OpKind::kLatentValues:
      return latent_attention_.run(op, worker);
    case model::OpKind::kNormDelta:
    case model::OpKind::kDelta:
      return delta_net_.run(op, worker);
    case model::OpKind::kOutAdd:
    case model::OpKind::kNormGateUp:
    case model::OpKind::kDownAdd:
      return feed_forward_.run(op, worker);
    case model::OpKind::kNormStore:
    case model::OpKind::kNormAdd:
    case model::OpKind::kNorm:
      return norms_.run(op, worker);
    case model::OpKind::kRoute:
      return router_.run(op, worker);
    case model::OpKind::kExpertGateUp:
    case model::OpKind::kExpertDownAdd:
      return experts_.run(op, worker);
    case model::OpKind::kNormLogits:
      return logits_.run(op, worker);
  }
}

}  // namespace holdfast::cpu
