#include "worker/model/work.h"

#include <map>

namespace holdfast::model {

Work work_of(const Program& program) {
  Work work;
  std::map<gguf::TensorType, double> by_type;
  for (const Op& op : program.ops) {
    const auto [first, end] = product_weights(op.kind);
    const bool experts = op.kind == OpKind::kExpertGateUp || op.kind == OpKind::kExpertDownAdd;
    for (int i = first; i < end; ++i) {
      const WeightRef& w = op.w[i];
      if (!w.present()) continue;
      const double share = experts ? static_cast<double>(program.shape.experts_used) /
                                         static_cast<double>(program.shape.experts)
                                   : 1;
      const double done = 2 * static_cast<double>(w.rows) * static_cast<double>(w.cols) * share;
      (op.kind == OpKind::kNormLogits ? work.logits : work.token) += done;
      if (op.kind != OpKind::kNormLogits) by_type[w.tensor->type] += done;
    }
  }
  double most = 0;
  for (const auto& [type, done] : by_type) {
    if (done > most) most = done, work.type = type;
  }
  return work;
}

}  // namespace holdfast::model
