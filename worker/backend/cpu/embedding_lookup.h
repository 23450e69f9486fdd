#pragma once
// Rows that are looked up by token or by position.

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

/// Runs kEmbed, kEmbedScaleAdd and kLayerInputs.
class EmbeddingLookup : Products {
 public:
  using Products::Products;
  void run(const PackedOp& op, int worker);

 private:
  void look_up(int worker);
  void scale_add(const PackedOp& op, int worker);
  void layer_inputs(const PackedOp& op, int worker);
  void mix_layer_inputs(const PackedOp& op, float* row, const float* token_inputs) const;
};

}  // namespace holdfast::cpu
