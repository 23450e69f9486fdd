#include "worker/backend/cpu/operation.h"

#include <cstring>

namespace holdfast::cpu {

void Operation::norm_row(const PackedOp& op, const float* x, float* out) const {
  if (op.norm_kind == plan::NormKind::kRms) {
    kernels_.rmsnorm(x, op.norm, shape_.width, norm_eps(), out);
  } else {
    kernels_.layernorm(x, op.norm, op.norm_bias, shape_.width, norm_eps(), out);
  }
}

void Operation::norm_inner(const PackedOp& op, const float* x, float* out) const {
  kernels_.rmsnorm(x, op.inner_norm, shape_.width, norm_eps(), out);
}

void Operation::clear_ends(const FloatRows& rows, std::int64_t first, std::int64_t count,
                           std::int64_t n) {
  const std::int64_t padding = round_up(n, kSpan) - n;
  for (std::int64_t i = first; i < first + count && padding > 0; ++i) {
    std::memset(rows.row(i) + n, 0, float_bytes(padding));
  }
}

}  // namespace holdfast::cpu
