#include "worker/backend/cpu/delta_net.h"

#include <cstring>

namespace holdfast::cpu {

void DeltaNet::run(const PackedOp& op, int worker) {
  if (op.kind == model::OpKind::kNormDelta) return norm_delta(op, worker);
  take_heads(op, worker);
}

/// Computes a recurrent layer's inputs: the columns of the convolution, those of the gate after it,
/// and two numbers for each head.
void DeltaNet::norm_delta(const PackedOp& op, int worker) {
  const Operand h = token_operand(op, buffers_.residual, worker);
  const FloatRows& gates = buffers_.delta_gates;
  const FloatRows second{gates.at + gates.stride / 2, gates.stride};
  products_into(op, h, {buffers_.mixer_input, buffers_.gate, gates, second}, worker);
}

float* DeltaNet::state_of(std::int32_t state, std::int32_t layer) const {
  const std::int64_t layers = shape_.layers - plan::attention_layers(shape_);
  return context_.memory.states.floats() + (state * layers + layer) * plan::state_floats(shape_);
}

/// Sets the columns of a head in the inputs of the convolution and among the gates.
void DeltaNet::set_columns(const PackedOp& op, std::int64_t head, DeltaArgs& a) const {
  const std::int64_t shared = shape_.state_heads / shape_.state_groups;
  const bool neighbours = op.delta.neighbours;
  const std::int64_t group = neighbours ? head / shared : head % shape_.state_groups;
  a.at_q = group * a.keys;
  a.at_k = (shape_.state_groups + group) * a.keys;
  a.at_v = 2 * shape_.state_groups * a.keys + head * a.values;
  a.writes_query_key = neighbours ? head % shared == 0 : head < shape_.state_groups;
  a.at_beta = neighbours ? group * 2 * shared + head % shared : head;
  a.at_alpha = a.at_beta + (neighbours ? shared : round_up(shape_.state_heads, kLanes));
}

/// Everything but the head's state and where it ends.
DeltaArgs DeltaNet::args_of(const PackedOp& op, std::int64_t s, std::int64_t head,
                            int worker) const {
  const std::int64_t first = batch_.first_of(s);
  DeltaArgs a;
  a.keys = shape_.state_key;
  a.values = shape_.state_value;
  a.taps = static_cast<int>(shape_.conv_taps);
  a.in = buffers_.mixer_input.row(first);
  a.in_stride = a.row_stride = buffers_.mixer_input.stride;
  a.conv = op.delta.conv;
  a.conv_stride = round_up(plan::conv_width(shape_), kLanes);
  set_columns(op, head, a);
  a.gates = buffers_.delta_gates.row(first);
  a.gate_stride = buffers_.delta_gates.stride;
  a.rate = op.delta.rate[head];
  a.step_bias = op.delta.step_bias[head];
  a.norm = op.norm;
  a.eps = norm_eps();
  a.z = buffers_.gate.row(first) + head * a.values;
  a.z_stride = buffers_.gate.stride;
  a.out = buffers_.attention_out.row(first) + head * a.values;
  a.out_stride = buffers_.attention_out.stride;
  a.scratch = scratch_of(worker).delta;
  return a;
}

/// Runs head `head` of segment `s`.
void DeltaNet::run_head(const PackedOp& op, std::int64_t s, std::int64_t head, int worker) {
  const backend::Segment& segment = batch_.segment(s);
  const std::int64_t rows = row_floats();
  const backend::StateUse& use = segment.states;
  float* state = state_of(use.at, op.layer);
  DeltaArgs a = args_of(op, s, head, worker);
  const float* from = state_of(use.origin(), op.layer);
  const auto [reads_second, writes_second] = batch_.halves(s);
  a.before = segment.start > 0 ? from + (reads_second ? rows : 0) : nullptr;
  const std::int64_t floats = a.keys * round_up(a.values, kLanes);
  const std::int64_t at = 2 * rows + head * floats;
  a.state = state + at;
  if (segment.start == 0) {
    std::memset(a.state, 0, float_bytes(floats));
  } else if (from != state) {
    std::memcpy(a.state, from + at, float_bytes(floats));
  }
  if (use.snapshot) {
    float* snapshot = state_of(use.snapshot->state, op.layer);
    a.tokens = use.snapshot->after;
    a.after = snapshot;
    kernels_.delta(a);
    std::memcpy(snapshot + at, a.state, float_bytes(floats));
    a.first = use.snapshot->after;
  }
  a.tokens = segment.n;
  a.after = state + (writes_second ? rows : 0);
  kernels_.delta(a);
  if (head + 1 == shape_.state_heads) {
    clear_ends(buffers_.attention_out, batch_.first_of(s), segment.n,
               shape_.state_heads * a.values);
  }
}

void DeltaNet::take_heads(const PackedOp& op, int worker) {
  std::atomic<std::int64_t>& next = context_.tickets.of(op);
  const std::int64_t work = batch_.segments() * shape_.state_heads;
  for (;;) {
    const std::int64_t at = next.fetch_add(1, std::memory_order_relaxed);
    if (at >= work) return;
    run_head(op, at / shape_.state_heads, at % shape_.state_heads, worker);
  }
}

}  // namespace holdfast::cpu
