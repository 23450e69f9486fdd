#pragma once
// The amount of computation in a forward pass, for tools that measure.

#include <functional>

#include "worker/model/program.h"

namespace holdfast::model {

/// Multiplications and additions of products with weights; attention's are not counted.
struct Work {
  struct Part {
    double all = 0;
    double marked = 0;  // of operations for which `mark` is true
  };
  Part token;  // for each token: what later tokens need of it (operations_for_all)
  Part row;    // in addition, for a token with logits
  /// The work for each of `n` tokens of which one has logits: a prompt; n = 1: decoding.
  Part of_one_in(std::int32_t n) const {
    return {token.all + row.all / n, token.marked + row.marked / n};
  }
  gguf::TensorType type = gguf::TensorType::kF32;  // of most weights in a token's layers
  // Bytes of weights that a step reads in which each stream has a token and its logits. Of experts
  // only the chosen ones, on average if all are chosen equally often.
  double step_bytes = 0;
};
/// Counts the work of a program's products. `mark`: operations whose work is also counted
/// separately; empty: none.
Work work_of(const Program& program, std::int32_t streams = 1,
             const std::function<bool(const Op&)>& mark = {});

}  // namespace holdfast::model
