#include "worker/model/work.h"

#include <map>

namespace holdfast::model {
namespace {

/// Which of an operation's weights are multiplied with, [first, end) of Op::w.
struct Matrices {
  int first = 0, end = 0;
};
Matrices matrices_of(OpKind kind) {
  switch (kind) {
    case OpKind::kNormQkv:
      return {1, 4};
    case OpKind::kOutAdd:
    case OpKind::kDownAdd:
    case OpKind::kExpertDownAdd:
      return {0, 1};
    case OpKind::kNormGateUp:
    case OpKind::kExpertGateUp:
    case OpKind::kRoute:
      return {1, 3};
    case OpKind::kNormLogits:
      return {1, 2};
    case OpKind::kEmbed:
    case OpKind::kEmbedMore:
    case OpKind::kQkNorm:
    case OpKind::kAttention:
    case OpKind::kNormAdd:
    case OpKind::kNorm:
      break;
  }
  return {};
}

}  // namespace

Work work_of(const Program& program) {
  Work work;
  std::map<gguf::TensorType, double> by_type;
  for (const Op& op : program.ops) {
    const Matrices m = matrices_of(op.kind);
    const bool experts = op.kind == OpKind::kExpertGateUp || op.kind == OpKind::kExpertDownAdd;
    for (int i = m.first; i < m.end; ++i) {
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
