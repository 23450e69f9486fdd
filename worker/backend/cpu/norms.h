#pragma once
// Norms between operations, of some architectures.

#include "worker/backend/cpu/operation.h"

namespace holdfast::cpu {

/// Runs kNormStore, kNormAdd and kNorm.
class Norms : Operation {
 public:
  using Operation::Operation;
  void run(const PackedOp& op, int worker);

 private:
  void norm_store(const PackedOp& op, const Share& share);
  void norm_add(const PackedOp& op, const Share& share, float* normed);
  void norm_residual(const PackedOp& op, const Share& share);
};

}  // namespace holdfast::cpu
