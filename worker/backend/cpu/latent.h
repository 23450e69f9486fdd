#pragma once
// Latent attention (DeepSeek-V2, arXiv 2405.04434): pages hold few numbers of each token, which all
// heads share. A matrix for each head takes queries to latent numbers, another takes attention's
// output back; in between it is attention with one head of keys, whose values are the keys.

#include "worker/backend/cpu/head_rows.h"

namespace holdfast::cpu {

/// Runs kNormLatent, kLatentQuery, kLatentHeads and kLatentValues.
class LatentAttention : HeadRows {
 public:
  using HeadRows::HeadRows;
  void run(const PackedOp& op, int worker);

 private:
  void norm_latent(const PackedOp& op, int worker);
  void make_query(const PackedOp& op, int worker);
  void store_and_split_heads(const PackedOp& op, int worker);
  void latent_head(const PackedOp& op, std::int64_t head, int worker);
  void values(const PackedOp& op, int worker);
  void head_values(const PackedOp& op, std::int64_t head, int worker);
  void store_latent(const PackedOp& op, const Token& token, const float* from, float* row);
  void put_head_row(const PackedOp& op, std::int64_t head, std::int64_t i, const float* from,
                    std::int64_t n);
  MatmulArgs head_product(const PackedOp& op, std::int64_t head, int worker) const;
};

}  // namespace holdfast::cpu
