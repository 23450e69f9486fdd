// Adds operations with the offsets of their weights; nothing is allocated yet.

#include <algorithm>

#include "worker/backend/cpu/family.h"
#include "worker/backend/opencl/device/limits.h"
#include "worker/backend/opencl/single/loader.h"

namespace holdfast::opencl {

using model::Op;
using model::OpKind;
using model::WeightRef;

Result<void> Loader::add_op(const Op& op) {
  DeviceOp out;
  out.kind = op.kind;
  out.layer = op.layer < 0 ? -1 : op.layer - first_layer_;
  if (!model_.shape.causal) out.layer = std::min(out.layer, 0);  // pages serve one layer at a time
  out.cache_layer = plan::cache_layer_index(model_.shape, out.layer);
  out.norm_kind = op.norm;
  out.activate = cpu::activate_of(op.activation);
  out.from_h = op.from_h;
  out.to_h = op.to_h;
  out.gate_rows = op.gate_rows;
  out.row_norm = op.row_norm;
  out.rope = op.rope;
  out.window = static_cast<std::int32_t>(std::min<std::int64_t>(op.window, INT32_MAX));
  out.scale = static_cast<float>(op.scale);
  out.cap = static_cast<float>(op.cap);
  if (part_ != nullptr) {
    const Columns& mine = part_->columns[model_.ops.size()];
    out.column = static_cast<std::int32_t>(mine.first);
    out.columns = static_cast<std::int32_t>(mine.n);
  }
  HOLDFAST_CHECKED(add_weights(op, out));
  model_.ops.push_back(std::move(out));
  return {};
}

Result<void> Loader::add_weights(const Op& op, DeviceOp& out) {
  switch (op.kind) {
    case OpKind::kAttention: {
      HOLDFAST_TRY(out.sinks_at, model_.weights.add_vector({op.w[0]}, op.w[0].rows));
      return {};
    }
    case OpKind::kEmbed:
      HOLDFAST_CHECKED(add_product(op.w[0], out));
      embedding_ = op.w[0].tensor;
      return {};
    case OpKind::kEmbedScaleAdd:
      return add_position_embeddings(op, out);
    case OpKind::kNormQkv:
    case OpKind::kQkNorm:
      return add_qkv(op, out);
    case OpKind::kOutAdd:
    case OpKind::kDownAdd:
    case OpKind::kExpertDownAdd: {
      out.inner = op.w[0].cols;
      HOLDFAST_CHECKED(add_product(op.w[0], out));
      HOLDFAST_TRY(out.bias_at[0],
                   model_.weights.add_vector({op.bias[0]}, op.w[0].rows / op.w[0].matrices));
      return {};
    }
    case OpKind::kNormAdd:
    case OpKind::kNorm:
      return add_norm(op, out);
    case OpKind::kRoute: {
      HOLDFAST_TRY(out.gate_at, model_.weights.add_vector({op.w[2]}, op.w[2].rows));
      HOLDFAST_TRY(out.choice_at, model_.weights.add_vector({op.w[3]}, op.w[3].rows));
      break;
    }
    case OpKind::kNormGateUp:
    case OpKind::kExpertGateUp:
    case OpKind::kNormLogits:
      break;
    case OpKind::kNormLatent:
    case OpKind::kLatentQuery:
    case OpKind::kLatentHeads:
    case OpKind::kLatentValues:
    case OpKind::kLayerInputs:
    case OpKind::kNormStore:
      CHECK_MSG(false, "refused by backend::load");
    case OpKind::kNormDelta:
      return add_norm_delta(op, out);
    case OpKind::kDelta:
      return add_delta(op, out);
    case OpKind::kGateHeads:
      return {};
  }
  HOLDFAST_CHECKED(add_norm(op, out));
  for (int i = 0; i < 2; ++i) {
    const WeightRef& w = op.w[1 + i];
    if (!w.present() || (i == 1 && op.kind == OpKind::kRoute)) continue;
    HOLDFAST_CHECKED(add_product(w, out));
    HOLDFAST_TRY(out.bias_at[i], model_.weights.add_vector({op.bias[1 + i]}, w.rows / w.matrices));
  }
  out.gated = out.products.size() == 2;
  return {};
}

/// Fuses work into the operation before it, which saves launches.
void Loader::link() {
  std::vector<DeviceOp>& ops = model_.ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    DeviceOp& op = ops[i];
    op.in_shared_rows =
        op.kind == OpKind::kNormGateUp && op.from_h && model_.shape.dense_layers > 0;
    op.norm_inside = (op.kind == OpKind::kNormQkv || op.kind == OpKind::kNormGateUp ||
                      op.kind == OpKind::kNormDelta) &&
                     op.norm_at >= 0 && op.norm_kind == plan::NormKind::kRms;
    if (i == 0) continue;
    DeviceOp& before = ops[i - 1];
    op.of_states = op.kind == OpKind::kOutAdd && before.kind == OpKind::kDelta;
    before.gates_follow = op.kind == OpKind::kGateHeads;
    if (op.kind == OpKind::kDownAdd) op.in_shared_rows = before.in_shared_rows;
    if (op.norm_inside) link_norm(before, op);
    if (op.kind != OpKind::kAttention || before.kind != OpKind::kNormQkv || before.row_norm) {
      continue;
    }
    op.may_finish = before.may_finish = true;
    op.rope = before.rope;
    op.bias_at[0] = before.bias_at[0];
    std::copy(std::begin(before.head_norm_at), std::end(before.head_norm_at), op.head_norm_at);
  }
}

/// An operation that writes the whole of x may spread it for the norm that follows.
void Loader::link_norm(DeviceOp& from, const DeviceOp& to) {
  const bool adds = from.kind == OpKind::kNormAdd || from.kind == OpKind::kExpertDownAdd ||
                    ((from.kind == OpKind::kOutAdd || from.kind == OpKind::kDownAdd) && !from.to_h);
  if (!adds || from.columns > 0) return;
  from.next_norm_at = to.norm_at;
}

Result<void> Loader::add_product(const WeightRef& w, DeviceOp& out) {
  // A tied embedding is read from the output's panels, so its weights exist once.
  if (embedding_ != nullptr && w.tensor == embedding_) {
    out.products.push_back(model_.ops.front().products[0]);
    return {};
  }
  HOLDFAST_TRY(DeviceMatrix matrix, model_.weights.add_matrix({w}, w.rows / w.matrices));
  // Columns that begin elsewhere than the result's: an embedding's, and the rows of experts that
  // add_slots reads.
  const bool at_zero = out.kind == OpKind::kEmbed || out.kind == OpKind::kNormLogits ||
                       out.kind == OpKind::kExpertDownAdd;
  out.products.push_back({std::move(matrix), at_zero ? 0 : out.column});
  return {};
}

Result<void> Loader::add_norm(const Op& op, DeviceOp& out) {
  HOLDFAST_TRY(out.norm_at, model_.weights.add_vector({op.w[0]}, model_.shape.width));
  HOLDFAST_TRY(out.norm_bias_at, model_.weights.add_vector({op.bias[0]}, model_.shape.width));
  return {};
}

Result<void> Loader::add_position_embeddings(const Op& op, DeviceOp& out) {
  if (op.w[1].present()) {
    WeightRef first = op.w[1];
    first.rows = 1;
    HOLDFAST_TRY(out.types_at, model_.weights.add_vector({first}, first.cols));
  }
  if (!op.w[0].present()) return {};
  if (options_.limits.context > op.w[0].rows) {
    return refuse_load(Errc::kUsage, "tensor " + op.w[0].tensor->name + ": holds " +
                                         std::to_string(op.w[0].rows) +
                                         " positions; expected a context of at most that many");
  }
  return add_product(op.w[0], out);
}

/// Consecutive matrices of q, k, v of one type become one matrix, and one launch.
Result<void> Loader::add_qkv(const Op& op, DeviceOp& out) {
  HOLDFAST_CHECKED(add_norm(op, out));
  std::int32_t column = 0;
  WeightRef weights[] = {{}, op.w[1], op.w[2], op.w[3]};
  if (op.gated) HOLDFAST_CHECKED(add_gate(weights[1], out));
  for (int i = 1; i < 4;) {
    if (!op.w[i].present()) break;  // kQkNorm
    std::vector<WeightRef> refs = {weights[i++]};
    while (i < 4 && op.w[i].tensor->type == refs[0].tensor->type) refs.push_back(weights[i++]);
    HOLDFAST_TRY(DeviceMatrix matrix, model_.weights.add_matrix(refs, model_.shape.head_dim));
    matrix.panels_each = matrix.panels;
    const auto columns = static_cast<std::int32_t>(matrix.panels * kLanes);
    out.products.push_back({std::move(matrix), column});
    column += columns;
  }
  CHECK(op.bias[1].present() == op.bias[2].present());
  CHECK(op.bias[1].present() == op.bias[3].present());
  HOLDFAST_TRY(out.bias_at[0], model_.weights.add_vector({op.bias[1], op.bias[2], op.bias[3]},
                                                         model_.shape.head_dim));
  for (int i = 0; i < 2; ++i) {
    HOLDFAST_TRY(out.head_norm_at[i],
                 model_.weights.add_vector({op.w[4 + i]}, model_.shape.head_dim));
  }
  return {};
}

}  // namespace holdfast::opencl
