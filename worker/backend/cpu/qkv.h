#pragma once
// Queries, keys and values of the batch's rows.

#include "worker/backend/cpu/head_rows.h"

namespace holdfast::cpu {

/// Runs kNormQkv and kQkNorm: products, biases, norms, rotation, and the stores into the pages.
class QkvProjection : HeadRows {
 public:
  using HeadRows::HeadRows;
  void run(const PackedOp& op, int worker);

 private:
  struct Head {
    int which;
    std::int64_t index;
  };
  void project(const PackedOp& op, int worker);
  void norm_over_heads(const PackedOp& op, int worker);
  std::int64_t query_items(const PackedOp& op) const;
  std::int64_t items(const PackedOp& op) const;
  Head head_of(const PackedOp& op, std::int64_t head) const;
  void run_head(const PackedOp& op, std::int64_t at, const Operand& h, std::int64_t first,
                std::int64_t next, int worker);
  void store_gate(std::int64_t head, std::int64_t first, const MatmulArgs& args) const;
  void finish_head(const PackedOp& op, const Head& head, std::int64_t first, const MatmulArgs& args,
                   int worker);
  void finish_row(const PackedOp& op, const Head& head, std::int64_t i, float* values,
                  float* scratch);
  void store_unnormed_key(std::int64_t head, std::int64_t i, const float* values) const;
  void finish_value(const PackedOp& op, std::int64_t head, const Token& token, const float* value,
                    float* scratch);
};

}  // namespace holdfast::cpu
