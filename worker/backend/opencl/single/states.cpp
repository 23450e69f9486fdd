// Layers with a recurrent state, and gates of attention heads.

#include "worker/backend/opencl/single/loader.h"
#include "worker/backend/opencl/single/operation_launcher.h"

namespace holdfast::opencl {

using cpu::round_up;

Result<void> Loader::add_norm_delta(const model::Op& op, DeviceOp& out) {
  HOLDFAST_CHECKED(add_norm(op, out));
  const auto heads = static_cast<std::int32_t>(round_up(model_.shape.state_heads, kLanes));
  const std::int32_t columns[] = {0, 0, 0, heads};  // two kinds of gates lie side by side
  for (int i = 0; i < 4; ++i) {
    const model::WeightRef& w = op.w[1 + i];
    if (!w.present()) continue;
    HOLDFAST_TRY(DeviceMatrix matrix, model_.weights.add_matrix({w}, w.rows));
    (i == 0 ? out.products : out.others).push_back({std::move(matrix), columns[i]});
  }
  return {};
}

Result<void> Loader::add_delta(const model::Op& op, DeviceOp& out) {
  out.neighbours = program_.details.family->delta == plan::DeltaNet::kNeighbours;
  HOLDFAST_TRY(out.conv_at, model_.weights.add_vector({op.w[0]}, op.w[0].rows * op.w[0].cols));
  HOLDFAST_TRY(out.norm_at, model_.weights.add_vector({op.w[1]}, op.w[1].rows));
  HOLDFAST_TRY(out.rate_at, model_.weights.add_vector({op.w[2]}, op.w[2].rows));
  HOLDFAST_TRY(out.bias_at[0], model_.weights.add_vector({op.bias[2]}, op.bias[2].rows));
  return {};
}

/// Each head of q is followed by its gate: two matrices whose heads alternate in the file.
Result<void> Loader::add_gate(model::WeightRef& q, DeviceOp& out) {
  q.matrices = model_.shape.heads;
  q.rows = model_.shape.heads * model_.shape.head_dim;
  q.matrix_stride = 2 * model_.shape.head_dim;
  model::WeightRef gate = q;
  gate.first_row += model_.shape.head_dim;
  HOLDFAST_TRY(DeviceMatrix matrix, model_.weights.add_matrix({gate}, model_.shape.head_dim));
  matrix.panels_each = matrix.panels;
  out.others.push_back({std::move(matrix), 0});
  return {};
}

void Loader::measure_states() {
  const backend::Limits& l = options_.limits;
  const std::int64_t batch = l.batch_tokens, heads = round_up(model_.shape.state_heads, kLanes);
  const std::int64_t values =
      round_up(model_.shape.state_heads * model_.shape.state_value, cpu::kSpan);
  const auto states = static_cast<std::size_t>(l.states > 0 ? l.states : l.batch_segments);
  Scratch& s = model_.scratch;
  model_.states.floats = plan::state_floats(model_.shape);
  model_.states.layers = model_.shape.layers - plan::attention_layers(model_.shape);
  to_.batch_.state_table.resize(states);
  reserve_scratch_rows(s.m, batch, round_up(plan::conv_width(model_.shape), kLanes),
                       "rows of the convolution");
  reserve_scratch_rows(s.z, batch, std::max(values, model_.shape.heads * model_.head_pad),
                       "rows of gates");
  reserve_scratch_rows(s.gates, batch, 2 * heads, "gates of states");
  reserve_scratch_rows(s.v, batch, values, "rows of recurrent layers");
  reserve_scratch(s.states,
                  static_cast<std::int64_t>(states) * model_.states.layers * model_.states.floats,
                  "states");
}

void OperationLauncher::norm_delta(const DeviceOp& op) {
  const From from = normed(op, model_.scratch.x, static_cast<std::int32_t>(batch_.tokens.size()));
  const auto multiply = [&](const Product& p, const Rows& to) {
    Into into;
    into.y = to.get();
    into.stride = to.stride;
    product(op, p, from, into);
  };
  multiply(op.products[0], model_.scratch.m);
  multiply(op.others[0], model_.scratch.z);
  for (std::size_t i = 1; i < op.others.size(); ++i) multiply(op.others[i], model_.scratch.gates);
}

void OperationLauncher::delta(const DeviceOp& op) {
  const auto layer = static_cast<std::uint64_t>(op.cache_layer);
  const auto floats = static_cast<std::uint64_t>(model_.states.floats);
  const DeltaParameters parameters{
      .state_floats = floats * static_cast<std::uint64_t>(model_.states.layers),
      .layer_at = floats * layer,
      .m_stride = model_.scratch.m.stride,
      .gate_stride = model_.scratch.gates.stride,
      .z_stride = model_.scratch.z.stride,
      .conv_at = op.conv_at,
      .norm_at = op.norm_at,
      .rate_at = op.rate_at,
      .bias_at = op.bias_at[0],
      .row_floats =
          static_cast<std::int32_t>(round_up(plan::conv_width(model_.shape), kLanes) + kLanes),
      .heads = static_cast<std::int32_t>(model_.shape.state_heads),
      .groups = static_cast<std::int32_t>(model_.shape.state_groups),
      .neighbours = op.neighbours,
      .eps = static_cast<float>(model_.shape.norm_eps),
      .out_stride = model_.scratch.v.stride,
      .pad = 0,
  };
  model_.queue.run(model_.kernels.delta,
                   {model_.shape.state_heads, static_cast<std::int64_t>(batch_.runs.size()),
                    model_.states.items, 1},
                   model_.scratch.m.get(), model_.scratch.gates.get(), model_.scratch.z.get(),
                   model_.weights.vectors(), model_.scratch.states.get(), model_.scratch.runs.get(),
                   model_.scratch.v.get(), parameters);
}

void OperationLauncher::gate_heads() {
  model_.queue.run(model_.kernels.gate_heads, {batch_.rows(), 1, kNormItems, 1},
                   model_.scratch.a.get(), model_.scratch.a.stride, model_.scratch.z.get(),
                   model_.scratch.z.stride, static_cast<std::int32_t>(model_.shape.head_dim),
                   model_.head_pad,
                   static_cast<std::int32_t>(model_.shape.heads * model_.shape.head_dim));
}

}  // namespace holdfast::opencl
