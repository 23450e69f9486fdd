#include "worker/backend/cpu/qkv.h"

#include <array>
#include <cstring>

namespace holdfast::cpu {
namespace {

constexpr auto kOnes = [] {
  std::array<float, kHeadDimMost> ones{};
  ones.fill(1);
  return ones;
}();

}  // namespace

void QkvProjection::run(const PackedOp& op, int worker) {
  if (op.kind == model::OpKind::kQkNorm) return norm_over_heads(op, worker);
  project(op, worker);
}

void QkvProjection::project(const PackedOp& op, int worker) {
  const Operand h = token_operand(op, buffers_.residual, worker);
  const RowGroups groups = row_groups(h);
  for_groups(groups, items(op), 1, op, h, worker,
             [&](const Operand& rows, std::int64_t first, std::int64_t at, std::int64_t) {
               run_head(op, at, rows, first, likely_next(at, 1, groups.threads), worker);
             });
}

std::int64_t QkvProjection::query_items(const PackedOp& op) const {
  return shape_.heads * (op.heads.gated ? 2 : 1);
}

/// The number of heads of q, k and v that have rows in a matrix.
std::int64_t QkvProjection::items(const PackedOp& op) const {
  std::int64_t items = query_items(op);
  for (int i = 1; i < 3; ++i) items += op.matrix[i].panels > 0 ? kind_of(op).kv_heads : 0;
  return items;
}

/// Head `head` of q, k and v together: its matrix (0, 1 or 2), and its index there.
QkvProjection::Head QkvProjection::head_of(const PackedOp& op, std::int64_t head) const {
  const std::int64_t after_q = head - query_items(op);
  if (after_q < 0) return {0, head};
  const std::int64_t kv_heads = kind_of(op).kv_heads;
  return {after_q < kv_heads ? 1 : 2, after_q % kv_heads};
}

/// Computes a head of q, k or v of the rows h, which are the batch's from `first` on: product,
/// bias, norm, rotation, and the stores into the pages. Head `next` probably follows.
void QkvProjection::run_head(const PackedOp& op, std::int64_t at, const Operand& h,
                             std::int64_t first, std::int64_t next, int worker) {
  Head head = head_of(op, at);
  const std::int64_t panels = kind_of(op).pad / kLanes;
  MatmulArgs args = product(op.matrix[head.which], h, worker);
  args.p0 = head.index * panels;
  args.p1 = (head.index + 1) * panels;
  if (next < items(op)) {
    const Head after = head_of(op, next);
    expect(args, op.matrix[after.which], after.index * panels, panels);
  }
  const bool gated = op.heads.gated && head.which == 0;
  const bool gate = gated && head.index % 2 == 1;
  if (gated) head.index /= 2;
  const bool stays = head.which == 0 && !gate;
  args.y =
      stays ? buffers_.query.row(first) + head.index * panels * kLanes : scratch_of(worker).tile;
  args.y_stride = stays ? buffers_.query.stride : buffers_.tile_cols;
  multiply(args, h.decode_heavy_rows);
  if (gate) return store_gate(head.index, first, args);
  finish_head(op, head, first, args, worker);
}

/// Stores a head's gate, which its output is multiplied by later (kGateHeads).
void QkvProjection::store_gate(std::int64_t head, std::int64_t first,
                               const MatmulArgs& args) const {
  const std::size_t bytes = float_bytes(shape_.head_dim);
  for (std::int64_t i = 0; i < args.rows; ++i) {
    std::memcpy(buffers_.gate.row(first + i) + head * shape_.head_dim, args.y + i * args.y_stride,
                bytes);
  }
}

void QkvProjection::finish_head(const PackedOp& op, const Head& head, std::int64_t first,
                                const MatmulArgs& args, int worker) {
  const HeadKind& kind = kind_of(op);
  const float* bias = op.bias[head.which];
  float* scratch = scratch_of(worker).attention;
  float* values = args.y;
  for (std::int64_t i = first; i < first + args.rows; ++i, values += args.y_stride) {
    if (bias != nullptr) kernels_.add(values, bias + head.index * kind.pad, kind.pad);
    if (op.heads.row_norm && head.which < 2) {  // continued in norm_over_heads()
      if (head.which == 1) store_unnormed_key(head.index, i, values);
      continue;
    }
    finish_row(op, head, i, values, scratch);
  }
}

void QkvProjection::store_unnormed_key(std::int64_t head, std::int64_t i,
                                       const float* values) const {
  const std::int64_t pad = buffers_.head_pad;
  std::memcpy(buffers_.key.row(i) + head * pad, values, float_bytes(pad));
}

/// Norms, rotates and stores what row `i` has of a head.
void QkvProjection::finish_row(const PackedOp& op, const Head& head, std::int64_t i, float* values,
                               float* scratch) {
  const Token& token = batch_.token(i);
  const bool value_too = head.which == 1 && op.matrix[2].panels == 0;
  if (head.which == 2 || value_too) finish_value(op, head.index, token, values, scratch);
  if (head.which == 2) return;
  const float* norm = op.heads.norm[head.which];
  if (norm != nullptr) kernels_.rmsnorm(values, norm, kind_of(op).head_dim, norm_eps(), values);
  rotate(head.which == 0 ? op.heads.query_rope : op.heads.rope, values, token.position);
  if (head.which == 1) store(op, 1, head.index, token, values);
}

/// Stores a head's value into its page, normed in `scratch` where the model norms values.
void QkvProjection::finish_value(const PackedOp& op, std::int64_t head, const Token& token,
                                 const float* value, float* scratch) {
  if (op.heads.value_norm) {
    kernels_.rmsnorm(value, kOnes.data(), kind_of(op).head_dim, norm_eps(), scratch);
    value = scratch;
  }
  store(op, 2, head, token, value);
}

/// Norms q and k over all heads of a token, then does what finish_row() does for one head.
void QkvProjection::norm_over_heads(const PackedOp& op, int worker) {
  const Share share = rows_of_worker(worker);
  const std::int64_t pad = buffers_.head_pad;
  for (std::int64_t i = share.first; i < share.last; ++i) {
    const Token& token = batch_.token(i);
    float* q = buffers_.query.row(i);
    float* k = buffers_.key.row(i);
    kernels_.rmsnorm_spread(q, op.heads.norm[0], shape_.heads * pad, shape_.heads * shape_.head_dim,
                            norm_eps(), q);
    kernels_.rmsnorm_spread(k, op.heads.norm[1], shape_.kv_heads * pad,
                            shape_.kv_heads * shape_.head_dim, norm_eps(), k);
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      rotate(op.heads.query_rope, q + h * pad, token.position);
    }
    for (std::int64_t h = 0; h < shape_.kv_heads; ++h) {
      rotate(op.heads.rope, k + h * pad, token.position);
      store(op, 1, h, token, k + h * pad);
    }
  }
}

}  // namespace holdfast::cpu
