// Layers that carry a state from token to token (gated delta net), and gates of attention heads.

#include <cstring>

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

/// Computes a recurrent layer's inputs: the columns of the convolution, those of the gate after it,
/// and two numbers for each head.
void CpuExecutor::norm_delta(const PackedOp& op, int worker) {
  const Operand h = token_operand(op, x_, x_stride_, worker);
  const std::int64_t heads = round_up(shape_.state_heads, kLanes);
  products_into(
      op, h, {{m_, m_stride_}, {z_, a_stride_}, {gates_, 2 * heads}, {gates_ + heads, 2 * heads}},
      worker);
}

float* CpuExecutor::state_of(std::int32_t state, std::int32_t layer) const {
  return reinterpret_cast<float*>(states_.data()) + (state * state_layers_ + layer) * state_floats_;
}

/// Runs head `head` of segment `s`.
void CpuExecutor::run_delta(const PackedOp& op, std::int64_t s, std::int64_t head, int worker) {
  const backend::Segment& segment = (*segments_)[static_cast<std::size_t>(s)];
  const std::int64_t first = segment_first_[static_cast<std::size_t>(s)];
  const std::int64_t key = shape_.state_key, value = shape_.state_value;
  const std::int64_t shared = shape_.state_heads / shape_.state_groups;
  const std::int64_t group = op.neighbours ? head / shared : head % shape_.state_groups;
  const std::int64_t rows = (shape_.conv_taps - 1) * m_stride_;
  float* state = state_of(segment.state, op.layer);
  DeltaArgs a;
  a.keys = key;
  a.values = value;
  a.taps = static_cast<int>(shape_.conv_taps);
  a.in = m_ + first * m_stride_;
  a.in_stride = a.row_stride = m_stride_;
  const float* from = state_of(segment.begins_at(), op.layer);
  const auto [reads_second, writes_second] = halves_[static_cast<std::size_t>(s)];
  a.before = segment.start > 0 ? from + (reads_second ? rows : 0) : nullptr;
  a.conv = op.conv;
  a.conv_stride = round_up(plan::conv_width(shape_), kLanes);
  a.at_q = group * key;
  a.at_k = (shape_.state_groups + group) * key;
  a.at_v = 2 * shape_.state_groups * key + head * value;
  a.writes_query_key = op.neighbours ? head % shared == 0 : head < shape_.state_groups;
  a.gates = gates_ + first * 2 * round_up(shape_.state_heads, kLanes);
  a.gate_stride = 2 * round_up(shape_.state_heads, kLanes);
  a.at_beta = op.neighbours ? group * 2 * shared + head % shared : head;
  a.at_alpha = a.at_beta + (op.neighbours ? shared : round_up(shape_.state_heads, kLanes));
  a.rate = op.rate[head];
  a.step_bias = op.step_bias[head];
  const std::int64_t floats = key * round_up(value, kLanes);
  a.state = state + 2 * rows + head * floats;
  const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
  const std::int64_t at = a.state - state;
  if (segment.start == 0) {
    std::memset(a.state, 0, bytes);
  } else if (from != state) {
    std::memcpy(a.state, from + at, bytes);
  }
  a.norm = op.norm;
  a.eps = static_cast<float>(shape_.norm_eps);
  a.z = z_ + first * a_stride_ + head * value;
  a.out = a_ + first * a_stride_ + head * value;
  a.z_stride = a.out_stride = a_stride_;
  a.scratch = workers_[static_cast<std::size_t>(worker)].delta;
  if (segment.snapshot_after > 0) {
    float* snapshot = state_of(segment.snapshot_state, op.layer);
    a.tokens = segment.snapshot_after;
    a.after = snapshot;
    kernels_.delta(a);
    std::memcpy(snapshot + at, a.state, bytes);
    a.first = segment.snapshot_after;
  }
  a.tokens = segment.n;
  a.after = state + (writes_second ? rows : 0);
  kernels_.delta(a);
  if (head + 1 == shape_.state_heads) end_rows_of_a(first, segment.n, shape_.state_heads * value);
}

void CpuExecutor::delta(const PackedOp& op, int worker) {
  std::atomic<std::int64_t>& next = ticket(op);
  const auto work = static_cast<std::int64_t>(segments_->size()) * shape_.state_heads;
  for (;;) {
    const std::int64_t at = next.fetch_add(1, std::memory_order_relaxed);
    if (at >= work) return;
    run_delta(op, at / shape_.state_heads, at % shape_.state_heads, worker);
  }
}

void CpuExecutor::gate_heads(int worker) {
  const std::int64_t n = shape_.heads * shape_.head_dim;
  const Share share = share_of(static_cast<std::int64_t>(tokens_.size()), worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    kernels_.sigmoid_mul(a_ + i * a_stride_, z_ + i * a_stride_, round_up(n, kLanes));
  }
  end_rows_of_a(share.first, share.last - share.first, n);
}

/// Clears the floats after the layer's rows of a, up to the end of a product's last block of k.
void CpuExecutor::end_rows_of_a(std::int64_t first, std::int64_t rows, std::int64_t n) const {
  const std::int64_t padding = round_up(n, kSpan) - n;
  for (std::int64_t i = first; i < first + rows && padding > 0; ++i) {
    std::memset(a_ + i * a_stride_ + n, 0, static_cast<std::size_t>(padding) * sizeof(float));
  }
}

}  // namespace holdfast::cpu
