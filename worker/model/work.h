#pragma once
// How much a forward pass computes, for tools that measure.

#include <functional>

#include "worker/model/program.h"

namespace holdfast::model {

/// Multiplications and additions of products with weights; those of attention are not among them.
struct Work {
  struct Part {
    double all = 0;
    double marked = 0;  // those that `mark` is true of
  };
  Part token;  // of each token: what those behind it need of it (operations_for_all)
  Part row;    // more, of a token whose logits are wanted
  /// Of each of `n` tokens, where the logits of one of them are wanted: a prompt; 1: that decodes.
  Part of_one_in(std::int32_t n) const {
    return {token.all + row.all / n, token.marked + row.marked / n};
  }
  gguf::TensorType type = gguf::TensorType::kF32;  // of the weights of most of a token's layers
  // Bytes of weights that a step reads in which each stream has a token and its logits: of experts
  // those that are chosen, on average if all are chosen alike.
  double step_bytes = 0;
};
/// `mark`: what of the work is wanted apart; empty: nothing.
Work work_of(const Program& program, std::int32_t streams = 1,
             const std::function<bool(const Op&)>& mark = {});

}  // namespace holdfast::model
