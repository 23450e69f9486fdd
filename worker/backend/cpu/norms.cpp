#include "worker/backend/cpu/norms.h"

namespace holdfast::cpu {

void Norms::run(const PackedOp& op, int worker) {
  const Share share = rows_of_worker(worker);
  if (op.kind == model::OpKind::kNormStore) return norm_store(op, share);
  if (op.kind == model::OpKind::kNorm) return norm_residual(op, share);
  norm_add(op, share, scratch_of(worker).token_row);
}

void Norms::norm_store(const PackedOp& op, const Share& share) {
  for (std::int64_t i = share.first; i < share.last; ++i) {
    norm_row(op, buffers_.normed.row(i), buffers_.dense_out.row(i));
  }
}

/// Adds rows to x, normed in `normed`.
void Norms::norm_add(const PackedOp& op, const Share& share, float* normed) {
  const std::int64_t n = round_up(shape_.width, kLanes);
  for (std::int64_t i = share.first; i < share.last; ++i) {
    const float* h = buffers_.normed.row(i);
    float* x = buffers_.residual.row(i);
    if (op.inner_norm != nullptr) {
      norm_inner(op, h, normed);
      kernels_.add(buffers_.dense_out.row(i), normed, n);
      h = buffers_.dense_out.row(i);
    }
    norm_row(op, h, normed);
    kernels_.add_scaled(x, normed, op.scale, n);
    if (op.factor != nullptr) kernels_.scale_cap(x, *op.factor, 0, n);
  }
}

void Norms::norm_residual(const PackedOp& op, const Share& share) {
  for (std::int64_t i = share.first; i < share.last; ++i) {
    norm_row(op, buffers_.residual.row(i), buffers_.residual.row(i));
  }
}

}  // namespace holdfast::cpu
