#pragma once
// How much a forward pass computes, for tools that measure.

#include "worker/model/program.h"

namespace holdfast::model {

/// Multiplications and additions of products with weights; those of attention are not among them.
struct Work {
  double token = 0;                                // of one token
  double logits = 0;                               // of one row of logits
  gguf::TensorType type = gguf::TensorType::kF32;  // of the weights of most of a token's
};
Work work_of(const Program& program);

}  // namespace holdfast::model
