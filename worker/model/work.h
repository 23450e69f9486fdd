#pragma once
// How much a forward pass computes, for tools that measure.

#include <functional>

#include "worker/model/program.h"

namespace holdfast::model {

/// Multiplications and additions of products with weights; those of attention are not among them.
struct Work {
  double token = 0;                                // of one token
  double marked = 0;                               // of one token, those that `mark` is true of
  double logits = 0;                               // of one row of logits
  gguf::TensorType type = gguf::TensorType::kF32;  // of the weights of most of a token's
  // Bytes of weights that a step reads in which each stream has a token and its logits: of experts
  // those that are chosen, on average if all are chosen alike.
  double step_bytes = 0;
};
/// `mark`: what of a token's work is wanted apart; empty: nothing.
Work work_of(const Program& program, std::int32_t streams = 1,
             const std::function<bool(const Op&)>& mark = {});

}  // namespace holdfast::model
