#pragma once
// Logits, and the last rows of tokens that ask for them.

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

/// Runs kNormLogits.
class Logits : Products {
 public:
  using Products::Products;
  void run(const PackedOp& op, int worker);

 private:
  void copy_inputs(int worker);
  void finish_hidden(const PackedOp& op, int worker);
  bool finish_logits(const PackedOp& op, std::int64_t row, std::int64_t p0, std::int64_t p1) const;
};

}  // namespace holdfast::cpu
