// Layers with a recurrent state, and gates of attention heads.

#include "worker/backend/opencl/single/executor.h"
#include "worker/backend/opencl/single/loader.h"

namespace holdfast::opencl {

using cpu::round_up;

Result<void> Loader::add_norm_delta(const model::Op& op, DeviceOp& out) {
  HOLDFAST_CHECKED(add_norm(op, out));
  const auto heads = static_cast<std::int32_t>(round_up(shape_.state_heads, kLanes));
  const std::int32_t columns[] = {0, 0, 0, heads};  // two kinds of gates lie side by side
  for (int i = 0; i < 4; ++i) {
    const model::WeightRef& w = op.w[1 + i];
    if (!w.present()) continue;
    HOLDFAST_TRY(DeviceMatrix matrix, to_.weights_.add_matrix({w}, w.rows));
    (i == 0 ? out.products : out.others).push_back({std::move(matrix), columns[i]});
  }
  return {};
}

Result<void> Loader::add_delta(const model::Op& op, DeviceOp& out) {
  out.neighbours = program_.details.family->delta == plan::DeltaNet::kNeighbours;
  HOLDFAST_TRY(out.conv_at, to_.weights_.add_vector({op.w[0]}, op.w[0].rows * op.w[0].cols));
  HOLDFAST_TRY(out.norm_at, to_.weights_.add_vector({op.w[1]}, op.w[1].rows));
  HOLDFAST_TRY(out.rate_at, to_.weights_.add_vector({op.w[2]}, op.w[2].rows));
  HOLDFAST_TRY(out.bias_at[0], to_.weights_.add_vector({op.bias[2]}, op.bias[2].rows));
  return {};
}

/// Each head of q is followed by its gate: two matrices whose heads alternate in the file.
Result<void> Loader::add_gate(model::WeightRef& q, DeviceOp& out) {
  q.matrices = shape_.heads;
  q.rows = shape_.heads * shape_.head_dim;
  q.matrix_stride = 2 * shape_.head_dim;
  model::WeightRef gate = q;
  gate.first_row += shape_.head_dim;
  HOLDFAST_TRY(DeviceMatrix matrix, to_.weights_.add_matrix({gate}, shape_.head_dim));
  matrix.panels_each = matrix.panels;
  out.others.push_back({std::move(matrix), 0});
  return {};
}

void Loader::measure_states() {
  const backend::Limits& l = options_.limits;
  const std::int64_t batch = l.batch_tokens, heads = round_up(shape_.state_heads, kLanes);
  const std::int64_t values = round_up(shape_.state_heads * shape_.state_value, cpu::kSpan);
  const auto states = static_cast<std::size_t>(l.states > 0 ? l.states : l.batch_segments);
  Scratch& s = to_.scratch_;
  to_.state_floats_ = plan::state_floats(shape_);
  to_.state_layers_ = shape_.layers - plan::attention_layers(shape_);
  to_.state_table_.resize(states);
  reserve_scratch_rows(s.m, batch, round_up(plan::conv_width(shape_), kLanes),
                       "rows of the convolution");
  reserve_scratch_rows(s.z, batch, std::max(values, shape_.heads * to_.head_pad_), "rows of gates");
  reserve_scratch_rows(s.gates, batch, 2 * heads, "gates of states");
  reserve_scratch_rows(s.v, batch, values, "rows of recurrent layers");
  reserve_scratch(s.states,
                  static_cast<std::int64_t>(states) * to_.state_layers_ * to_.state_floats_,
                  "states");
}

void OpenclExecutor::plan_states(const std::vector<backend::Segment>& segments) {
  runs_.clear();
  state_table_.begin();
  std::int32_t first = 0;
  for (const backend::Segment& s : segments) {
    const auto [reads_second, writes_second] = state_table_.plan(s);
    runs_.push_back({first, s.n, s.start == 0 ? 1 : 0, s.begins_at(), reads_second ? 1 : 0, s.state,
                     writes_second ? 1 : 0, s.snapshot_after, s.snapshot_state, 0});
    first += s.n;
  }
}

void OpenclExecutor::norm_delta(const DeviceOp& op) {
  const From from = normed(op, scratch_.x, static_cast<std::int32_t>(tokens_.size()));
  const auto multiply = [&](const Product& p, const Rows& to) {
    Into into;
    into.y = to.get();
    into.stride = to.stride;
    product(op, p, from, into);
  };
  multiply(op.products[0], scratch_.m);
  multiply(op.others[0], scratch_.z);
  for (std::size_t i = 1; i < op.others.size(); ++i) multiply(op.others[i], scratch_.gates);
}

void OpenclExecutor::delta(const DeviceOp& op) {
  const auto layer = static_cast<std::uint64_t>(op.cache_layer);
  const auto floats = static_cast<std::uint64_t>(state_floats_);
  queue_.run(kernels_.delta,
             {shape_.state_heads, static_cast<std::int64_t>(runs_.size()), delta_items_, 1},
             scratch_.m.get(), scratch_.m.stride, scratch_.gates.get(), scratch_.gates.stride,
             scratch_.z.get(), scratch_.z.stride, weights_.vectors(), op.conv_at, op.norm_at,
             op.rate_at, op.bias_at[0], scratch_.states.get(),
             floats * static_cast<std::uint64_t>(state_layers_), floats * layer,
             static_cast<std::int32_t>(round_up(plan::conv_width(shape_), kLanes) + kLanes),
             scratch_.runs.get(), static_cast<std::int32_t>(shape_.state_heads),
             static_cast<std::int32_t>(shape_.state_groups), std::int32_t{op.neighbours},
             static_cast<float>(shape_.norm_eps), scratch_.v.get(), scratch_.v.stride);
}

void OpenclExecutor::gate_heads() {
  queue_.run(kernels_.gate_heads, {batch_rows(), 1, kNormItems, 1}, scratch_.a.get(),
             scratch_.a.stride, scratch_.z.get(), scratch_.z.stride,
             static_cast<std::int32_t>(shape_.head_dim), head_pad_,
             static_cast<std::int32_t>(shape_.heads * shape_.head_dim));
}

}  // namespace holdfast::opencl
