#include "worker/backend/opencl/single/rows_part.h"

#include <algorithm>
#include <string>

#include "shared/base/check.h"
#include "worker/weights/layout.h"

namespace holdfast::opencl {

using model::Op;
using model::OpKind;
using model::WeightRef;

Columns share_columns(std::int64_t all, int i, int n) {
  CHECK(n > 0 && i >= 0 && i < n);
  const std::int64_t panels = (all + cpu::kLanes - 1) / cpu::kLanes;
  const std::int64_t first = panels * i / n * cpu::kLanes;
  const std::int64_t end = std::min(panels * (i + 1) / n * cpu::kLanes, all);
  return {first, end - first};
}

HeadShare share_heads(const plan::ModelShape& shape, int i, int n) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  if (!shape.qk_norm_row && shape.kv_heads >= n) {
    const std::int64_t first = shape.kv_heads * i / n, end = shape.kv_heads * (i + 1) / n;
    return {first * group, (end - first) * group, first, end - first, false};
  }
  if (!shape.qk_norm_row && n % shape.kv_heads == 0 && shape.heads % n == 0) {
    const std::int64_t each = shape.heads / n;
    return {i * each, each, i / (n / shape.kv_heads), 1, false};
  }
  return {0, shape.heads, 0, shape.kv_heads, true};
}

namespace {

/// Reduces each matrix of `w` to the rows of these columns.
void take_rows(WeightRef& w, const Columns& columns) {
  if (!w.present()) return;
  const std::int64_t each = w.rows / w.matrices;
  CHECK(columns.first + columns.n <= each);
  if (w.matrices > 1) w.matrix_stride = each;
  w.first_row += columns.first;
  w.rows = columns.n * w.matrices;
}

void take_heads(Op& op, const HeadShare& heads, std::int64_t head_dim) {
  for (int i = 1; i < 4; ++i) {
    const Columns rows = i == 1 ? Columns{heads.first * head_dim, heads.heads * head_dim}
                                : Columns{heads.first_kv * head_dim, heads.kv_heads * head_dim};
    take_rows(op.w[i], rows);
    take_rows(op.bias[i], rows);
  }
}

/// The weights whose rows are divided like the operation's result: [first, end) of Op::w. Heads are
/// divided by share_heads(), routers not at all.
std::pair<int, int> result_weights(OpKind kind) {
  if (kind == OpKind::kEmbed) return {0, 1};
  if (kind == OpKind::kNormQkv || kind == OpKind::kRoute) return {0, 0};
  return model::product_weights(kind);
}

}  // namespace

Result<RowsPart> rows_part(const model::Program& program, int i, int n) {
  RowsPart part{program, {}, program.shape.heads, false};
  plan::ModelShape& shape = part.program.shape;
  const HeadShare heads = share_heads(shape, i, n);
  part.whole_heads = heads.whole;
  for (Op& op : part.program.ops) {
    Columns columns;
    if (op.kind == OpKind::kNormQkv && !heads.whole) take_heads(op, heads, shape.head_dim);
    if (op.kind == OpKind::kAttention && !heads.whole) {
      columns = {heads.first * shape.head_dim, heads.heads * shape.head_dim};
      take_rows(op.w[0], {heads.first, heads.heads});  // sinks
    }
    const auto [first, end] = result_weights(op.kind);
    for (int w = first; w < end; ++w) {
      if (!op.w[w].present()) continue;
      const std::int64_t rows = op.w[w].rows / op.w[w].matrices;
      columns = share_columns(rows, i, n);
      if (columns.n == 0) {
        return Error{Errc::kUsage, "load opencl: tensor " + op.w[w].tensor->name + ": " +
                                       std::to_string(rows) + " rows over " + std::to_string(n) +
                                       " devices; expected 16 for each"};
      }
      take_rows(op.w[w], columns);
      take_rows(op.bias[w], columns);
    }
    part.columns.push_back(columns);
  }
  shape.heads = heads.heads;
  shape.kv_heads = heads.kv_heads;
  return part;
}

}  // namespace holdfast::opencl
