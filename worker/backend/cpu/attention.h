#pragma once
// Attention over the pages of a sequence.

#include "worker/backend/cpu/head_rows.h"

namespace holdfast::cpu {

/// Runs kAttention and kGateHeads: Buffers::attention_out from Buffers::query.
class Attention : HeadRows {
 public:
  using HeadRows::HeadRows;
  void run(const PackedOp& op, int worker);

 private:
  void attend(const PackedOp& op, int worker);
  void run_item(const PackedOp& op, const AttentionRun& run, std::int64_t head, AttentionArgs args);
  AttentionArgs args_of(const PackedOp& op, const AttentionRun& run, std::int64_t head) const;
  const std::uint8_t* first_keys(const PackedOp& op, std::int64_t at) const;
  void gate_heads(int worker);
};

}  // namespace holdfast::cpu
