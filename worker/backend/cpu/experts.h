#pragma once
// Mixture of experts: rows at their experts, as the Router has grouped them.

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

/// Runs kExpertGateUp and kExpertDownAdd. Each row is multiplied on its own and adds its experts in
/// rising order, so its bits are those of a batch of one.
class Experts : Products {
 public:
  using Products::Products;
  void run(const PackedOp& op, int worker);

 private:
  /// The slots of one expert and a run of its panels.
  struct Item {
    std::int32_t expert;
    std::int64_t first;  // slot
    std::int64_t rows;
    std::int64_t p0, p1;
  };
  void gate_up(const PackedOp& op, int worker);
  void gate_up_item(const PackedOp& op, const Item& item, const Operand& rows, int worker);
  void down(const PackedOp& op, int worker);
  void down_item(const PackedOp& op, const Item& item, const Operand& rows, int worker);
  Item item_of(std::int64_t group, std::int64_t p0, std::int64_t p1) const;
  std::int64_t slots() const { return batch_.rows() * shape_.experts_used; }
  Operand slot_operand(const PackedOp& op, const FloatRows& x, int worker);
  Operand part(const Operand& all, std::int64_t first, std::int64_t rows) const;
  void clear_normed(std::int64_t p0, std::int64_t p1) const;
};

}  // namespace holdfast::cpu
