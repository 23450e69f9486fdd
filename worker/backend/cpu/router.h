#pragma once
// The choice of experts for each row. Rows are then grouped by expert, so that an expert's weights
// are read once for all of its rows.

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

/// Runs kRoute: fills Buffers::routing.
class Router : Products {
 public:
  using Products::Products;
  void run(const PackedOp& op, int worker);

 private:
  void share_row(const PackedOp& op, const float* row, std::int64_t i);
  void score_rows(const PackedOp& op, const Operand& h, int worker);
  void choose(const PackedOp& op, std::int64_t row, float* p);
  double score_experts(float* p, bool whole) const;
  double softmax_scores(float* p, bool whole) const;
  void close_groups(const float* choice, float* p) const;
  std::uint64_t open_groups(const float* choice, const float* p) const;
  void group_slots();
  void gather_slots(int worker);
};

}  // namespace holdfast::cpu
