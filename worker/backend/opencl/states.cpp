// Layers that carry a state from token to token, and gates behind heads.

#include "worker/backend/opencl/executor.h"
#include "worker/backend/opencl/loader.h"

namespace holdfast::opencl {

using cpu::round_up;

Result<void> Loader::place_norm_delta(const model::Op& op, DeviceOp& out) {
  HF_CHECKED(place_norm(op, out));
  const auto heads = static_cast<std::int32_t>(round_up(shape_.state_heads, kLanes));
  const std::int32_t columns[] = {0, 0, 0, heads};  // two kinds of gates stand side by side
  for (int i = 0; i < 4; ++i) {
    const model::WeightRef& w = op.w[1 + i];
    if (!w.present()) continue;
    HF_TRY(DeviceMatrix matrix, to_.weights_.add_matrix({w}, w.rows));
    (i == 0 ? out.products : out.others).push_back({std::move(matrix), columns[i]});
  }
  return {};
}

Result<void> Loader::place_delta(const model::Op& op, DeviceOp& out) {
  out.neighbours = program_.details.family->delta == plan::DeltaNet::kNeighbours;
  HF_TRY(out.conv_at, to_.weights_.add_vector({op.w[0]}, op.w[0].rows * op.w[0].cols));
  HF_TRY(out.norm_at, to_.weights_.add_vector({op.w[1]}, op.w[1].rows));
  HF_TRY(out.rate_at, to_.weights_.add_vector({op.w[2]}, op.w[2].rows));
  HF_TRY(out.bias_at[0], to_.weights_.add_vector({op.bias[2]}, op.bias[2].rows));
  return {};
}

/// Behind each head of q its gate: two matrices, whose heads lie apart in the file.
Result<void> Loader::place_gate(model::WeightRef& q, DeviceOp& out) {
  q.matrices = shape_.heads;
  q.rows = shape_.heads * shape_.head_dim;
  q.apart = 2 * shape_.head_dim;
  model::WeightRef gate = q;
  gate.first_row += shape_.head_dim;
  HF_TRY(DeviceMatrix matrix, to_.weights_.add_matrix({gate}, shape_.head_dim));
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
  to_.state_book_.resize(states);
  wish_rows(s.m, batch, round_up(plan::conv_width(shape_), kLanes), "rows of the convolution");
  wish_rows(s.z, batch, std::max(values, shape_.heads * to_.head_pad_), "rows of gates");
  wish_rows(s.gates, batch, 2 * heads, "gates of states");
  wish_rows(s.v, batch, values, "rows of recurrent layers");
  wish(s.runs, static_cast<std::int64_t>(l.batch_segments * sizeof(StateRun) / 4), "segments");
  wish(s.states, static_cast<std::int64_t>(states) * to_.state_layers_ * to_.state_floats_,
       "states");
}

void OpenclExecutor::plan_states(const std::vector<backend::Segment>& segments) {
  runs_.clear();
  state_book_.begin();
  std::int32_t first = 0;
  for (const backend::Segment& s : segments) {
    const auto [reads_second, writes_second] = state_book_.plan(s);
    runs_.push_back({first, s.n, s.start == 0 ? 1 : 0, s.begins_at(), reads_second ? 1 : 0, s.state,
                     writes_second ? 1 : 0, s.keep, s.keep_as, 0});
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
  const auto layer = static_cast<std::uint64_t>(op.place);
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
