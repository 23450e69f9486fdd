#include "worker/backend/cpu/feed_forward.h"

#include <cstring>

namespace holdfast::cpu {

void FeedForward::run(const PackedOp& op, int worker) {
  if (op.kind == model::OpKind::kNormGateUp) return gate_up(op, worker);
  if (op.kind == model::OpKind::kDownAdd) return add_product(op, buffers_.feed_forward, worker);
  add_product(op, shape_.latent > 0 ? buffers_.mixer_input : buffers_.attention_out, worker);
}

void FeedForward::add_product(const PackedOp& op, const FloatRows& x, int worker) {
  if (op.general_path) return add_product_general(op, x, worker);
  const FloatRows residual = buffers_.residual;
  run_product_items(op, x, worker, [&](float* y, std::int64_t i, std::int64_t p0, std::int64_t n) {
    kernels_.add(residual.row(i) + p0 * kLanes, y, n);
  });
}

/// kOutAdd and kDownAdd with a bias, a scale, or h as the destination.
void FeedForward::add_product_general(const PackedOp& op, const FloatRows& x, int worker) {
  const FloatRows out = op.to_h ? buffers_.normed : buffers_.residual;
  run_product_items(op, x, worker, [&](float* y, std::int64_t i, std::int64_t p0, std::int64_t n) {
    float* to = out.row(i) + p0 * kLanes;
    if (op.bias[0] != nullptr) kernels_.add(y, op.bias[0] + p0 * kLanes, n);
    if (op.to_h) {
      std::memcpy(to, y, float_bytes(n));
      return;
    }
    const float scale = op.gate_rows ? op.scale * buffers_.routing.gate[i] : op.scale;
    kernels_.add_scaled(to, y, scale, n);
  });
}

void FeedForward::gate_up(const PackedOp& op, int worker) {
  if (op.general_path) return gate_up_general(op, worker);
  run_gate_up_items(op, worker,
                    [&](float* gate, const float* up, std::int64_t, std::int64_t, std::int64_t n) {
                      kernels_.silu_mul(gate, up, n);
                    });
}

/// kNormGateUp with biases, without a gate, or with another activation.
void FeedForward::gate_up_general(const PackedOp& op, int worker) {
  run_gate_up_items(op, worker,
                    [&](float* f, float* up, std::int64_t i, std::int64_t p0, std::int64_t n) {
                      if (op.bias[0] != nullptr) kernels_.add(f, op.bias[0] + p0 * kLanes, n);
                      if (op.bias[1] != nullptr) kernels_.add(up, op.bias[1] + p0 * kLanes, n);
                      if (op.by_input) up = buffers_.layer_input.row(i) + op.input_at + p0 * kLanes;
                      kernels_.activate(op.activate, f, up, n);
                    });
}

/// Computes f item by item: finish(gate, up, i, p0, n) combines the n outputs of gate and of up for
/// row i, from panel p0 on, in place of gate's; up is null where the model has none.
template <class F>
void FeedForward::run_gate_up_items(const PackedOp& op, int worker, F finish) {
  const Operand all = token_operand(op, buffers_.residual, worker);
  const RowGroups groups = row_groups(all);
  const FloatRows tile{scratch_of(worker).tile, buffers_.tile_cols};
  const bool gated = op.matrix[1].panels > 0;
  const bool fused = op.encoding.fused.decode_heavy != nullptr;
  const std::int64_t per = panels_at_once(op.matrix[0], all, groups);
  const auto run_item = [&](const Operand& rows, std::int64_t first, std::int64_t p0,
                            std::int64_t p1) {
    const FloatRows f = item_rows(op, first, p0, worker);
    MatmulArgs args = product(op.matrix[0], rows, worker);
    args.p0 = p0;
    args.p1 = p1;
    args.y = f.at;
    args.y_stride = f.stride;
    const std::int64_t next = likely_next(p0, per, groups.threads);
    expect(args, op.matrix[gated ? 1 : 0], gated ? p0 : next, per);
    multiply(args, rows.decode_heavy_rows);
    if (gated) {
      args.w = &op.matrix[1];
      args.y = tile.at;
      args.y_stride = tile.stride;
      expect(args, op.matrix[0], next, per);
      multiply(args, rows.decode_heavy_rows);
    }
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      finish(f.row(i), gated ? tile.row(i) : nullptr, first + i, p0, (p1 - p0) * kLanes);
      if (fused) run_epilogue(op, f.row(i), first + i, p0, p1);
    }
    if (p1 == op.matrix[0].panels && !fused) {
      clear_ends(buffers_.feed_forward, first, rows.rows, op.matrix[0].panels * kLanes);
    }
  };
  for_groups(groups, op.matrix[0].panels, per, op, all, worker, run_item);
}

/// The destination of a work item of f from row `first` and panel p0 on: its part of f, or a tile
/// that stays in the cache until run_epilogue() has encoded it.
FloatRows FeedForward::item_rows(const PackedOp& op, std::int64_t first, std::int64_t p0,
                                 int worker) const {
  const FloatRows& f = buffers_.feed_forward;
  if (op.encoding.fused.decode_heavy == nullptr) return {f.row(first) + p0 * kLanes, f.stride};
  return {scratch_of(worker).item_rows, buffers_.item_cols};
}

/// Encodes finished panels [p0, p1) of row i of f for the next product.
void FeedForward::run_epilogue(const PackedOp& op, const float* f, std::int64_t i, std::int64_t p0,
                               std::int64_t p1) const {
  const ActivationFormats& fused = op.encoding.fused;
  const ActivationFormat& format =
      i < batch_.decode_heavy_rows() ? *fused.decode_heavy : *fused.prefill_heavy;
  const std::int64_t row = i * encoded_stride(fused, op.matrix[0].panels * kLanes);
  const std::int64_t at = p0 * kLanes / kActivationBlock * format.block_bytes;
  auto* encoded = reinterpret_cast<std::uint8_t*>(buffers_.feed_forward.at);
  format.make(f, (p1 - p0) * kLanes, encoded + row + at);
}

}  // namespace holdfast::cpu
