#pragma once
// Layers that carry a state from token to token (gated delta net).

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

/// Runs kNormDelta and kDelta.
class DeltaNet : Products {
 public:
  using Products::Products;
  void run(const PackedOp& op, int worker);

 private:
  void norm_delta(const PackedOp& op, int worker);
  void take_heads(const PackedOp& op, int worker);
  void run_head(const PackedOp& op, std::int64_t s, std::int64_t head, int worker);
  DeltaArgs args_of(const PackedOp& op, std::int64_t s, std::int64_t head, int worker) const;
  void set_columns(const PackedOp& op, std::int64_t head, DeltaArgs& a) const;
  float* state_of(std::int32_t state, std::int32_t layer) const;
  /// Returns the floats of one of the two sets of convolution rows in a state.
  std::int64_t row_floats() const { return (shape_.conv_taps - 1) * buffers_.mixer_input.stride; }
};

}  // namespace holdfast::cpu
