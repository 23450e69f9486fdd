#include "worker/backend/cpu/attention.h"

#include <cmath>

namespace holdfast::cpu {

void Attention::run(const PackedOp& op, int worker) {
  if (op.kind == model::OpKind::kGateHeads) return gate_heads(worker);
  attend(op, worker);
}

/// The keys that work item `at` of attention reads first.
const std::uint8_t* Attention::first_keys(const PackedOp& op, std::int64_t at) const {
  const HeadKind& kind = kind_of(op);
  const AttentionRun& run =
      batch_.runs(op.heads.kind)[static_cast<std::size_t>(at / kind.kv_heads)];
  const std::int64_t position = batch_.token(run.first).position;
  const std::int64_t window = op.heads.window;
  const std::int64_t begin = window > 0 ? std::max<std::int64_t>(0, position + 1 - window) : 0;
  return page_of(op, false, at % kind.kv_heads) +
         batch_.segment(run.segment).pages[begin / kPageTokens] * kind.page_bytes;
}

void Attention::attend(const PackedOp& op, int worker) {
  const std::int64_t kv_heads = kind_of(op).kv_heads;
  const std::vector<AttentionRun>& runs = batch_.runs(op.heads.kind);
  std::atomic<std::int64_t>& next_item = context_.tickets.of(op);
  const auto work = static_cast<std::int64_t>(runs.size()) * kv_heads;
  for (;;) {
    const std::int64_t at = next_item.fetch_add(1, std::memory_order_relaxed);
    if (at >= work) return;
    const AttentionRun& run = runs[static_cast<std::size_t>(at / kv_heads)];
    AttentionArgs args = args_of(op, run, at % kv_heads);
    args.scratch = scratch_of(worker).attention;
    const std::int64_t next = at + pool_.size();  // likely
    args.then = first_keys(op, next < work ? next : at);
    run_item(op, run, at % kv_heads, args);
  }
}

AttentionArgs Attention::args_of(const PackedOp& op, const AttentionRun& run,
                                 std::int64_t head) const {
  const HeadKind& kind = kind_of(op);
  const auto group = static_cast<std::int32_t>(shape_.heads / kind.kv_heads);
  AttentionArgs args;
  args.k = page_of(op, false, head);
  args.v = page_of(op, true, head);
  args.page_bytes = kind.page_bytes;
  args.pages = batch_.segment(run.segment).pages;
  args.kv = context_.kv_type;
  args.q = buffers_.query.row(run.first) + head * group * kind.pad;
  args.q_stride = buffers_.query.stride;
  args.out = buffers_.attention_out.row(run.first) + head * group * kind.head_dim;
  args.out_stride = buffers_.attention_out.stride;
  args.start = batch_.token(run.first).position;
  args.tokens = run.count;
  args.group = group;
  args.head_dim = static_cast<std::int32_t>(kind.head_dim);
  args.head_pad = static_cast<std::int32_t>(kind.pad);
  args.scale = op.scale > 0 ? op.scale : 1.0f / std::sqrt(static_cast<float>(kind.head_dim));
  return args;
}

void Attention::run_item(const PackedOp& op, const AttentionRun& run, std::int64_t head,
                         AttentionArgs args) {
  if (of_two_kinds() && head == 0) {
    clear_ends(buffers_.attention_out, run.first, run.count, shape_.heads * args.head_dim);
  }
  const Kernels& kernels =
      run.first < batch_.decode_heavy_rows() ? kernels_ : context_.prefill_kernels;
  if (!op.general_path) return kernels.attention(args);
  args.window = op.heads.window;
  args.cap = op.cap;
  if (op.heads.sinks != nullptr) args.sinks = op.heads.sinks + head * args.group;
  if (!shape_.causal) args.noncausal_end = batch_.segment(run.segment).n;
  kernels.attention_ranged(args);
}

void Attention::gate_heads(int worker) {
  const std::int64_t n = shape_.heads * shape_.head_dim;
  const Share share = rows_of_worker(worker);
  for (std::int64_t i = share.first; i < share.last; ++i) {
    kernels_.sigmoid_mul(buffers_.attention_out.row(i), buffers_.gate.row(i), round_up(n, kLanes));
  }
  clear_ends(buffers_.attention_out, share.first, share.last - share.first, n);
}

}  // namespace holdfast::cpu
