#pragma once
// The base of operations on heads: rotation, and the pages of keys and values.

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

/// The base of operations that make or read keys and values.
class HeadRows : public Products {
 public:
  using Products::Products;

 protected:
  const HeadKind& kind_of(const PackedOp& op) const { return context_.head_kinds[op.heads.kind]; }
  bool of_two_kinds() const { return context_.head_kinds[1].kv_heads > 0; }
  /// Returns page 0 of the keys or values of one head of the operation's layer.
  std::uint8_t* page_of(const PackedOp& op, bool value, std::int64_t head) const;
  /// Turns a head by the angles of a position; no table: leaves it.
  void rotate(std::int32_t rope, float* head, std::int64_t position) const;
  /// Stores a token's key (1) or value (2) of one head into its page.
  void store(const PackedOp& op, int which, std::int64_t head, const Token& token,
             const float* values);
};

}  // namespace holdfast::cpu
