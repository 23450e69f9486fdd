#include "worker/model/work.h"

#include <cmath>
#include <map>

namespace holdfast::model {
namespace {

bool of_experts(const Op& op) {
  return op.kind == OpKind::kExpertGateUp || op.kind == OpKind::kExpertDownAdd;
}

/// The share of the experts that one token uses.
double expert_share(const Program& program) {
  return static_cast<double>(program.shape.experts_used) /
         static_cast<double>(program.shape.experts);
}

}  // namespace

Work work_of(const Program& program, std::int32_t streams,
             const std::function<bool(const Op&)>& mark) {
  Work work;
  std::map<gguf::TensorType, double> by_type;
  const Op* const row_ops = program.ops.data() + operations_for_all(program);
  for_products(program, [&](const Op& op, const WeightRef& w) {
    const double share = of_experts(op) ? expert_share(program) : 1;
    const double values = static_cast<double>(w.rows) * static_cast<double>(w.cols);
    const double done = 2 * values * share;
    Work::Part& part = &op < row_ops ? work.token : work.row;
    part.all += done;
    if (mark && mark(op)) part.marked += done;
    if (op.kind != OpKind::kNormLogits) by_type[w.tensor->type] += done;
    const auto traits = gguf::type_traits(w.tensor->type);
    const double bytes = values * traits->block_bytes / traits->block_elements;
    work.step_bytes += bytes * (1 - std::pow(1 - share, streams));
  });
  double most = 0;
  for (const auto& [type, done] : by_type) {
    if (done > most) most = done, work.type = type;
  }
  return work;
}

}  // namespace holdfast::model
