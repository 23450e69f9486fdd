#pragma once
// The dense feed-forward, and the products that end a layer's halves.

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

/// Runs kNormGateUp, kDownAdd and kOutAdd.
class FeedForward : Products {
 public:
  using Products::Products;
  void run(const PackedOp& op, int worker);

 private:
  void gate_up(const PackedOp& op, int worker);
  void gate_up_general(const PackedOp& op, int worker);
  void add_product(const PackedOp& op, const FloatRows& x, int worker);
  void add_product_general(const PackedOp& op, const FloatRows& x, int worker);
  template <class F>
  void run_gate_up_items(const PackedOp& op, int worker, F finish);
  FloatRows item_rows(const PackedOp& op, std::int64_t first, std::int64_t p0, int worker) const;
  void run_epilogue(const PackedOp& op, const float* f, std::int64_t i, std::int64_t p0,
                    std::int64_t p1) const;
};

}  // namespace holdfast::cpu
