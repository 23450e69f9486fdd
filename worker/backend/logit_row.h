#pragma once
// A row of logits, and what the one who made it has seen of it already: whoever looks for the
// greatest of 150,000 need not go over all of them once more. Pure.

#include <cstdint>

namespace holdfast::backend {

inline constexpr std::int32_t kBlockIds = 128;  // ids whose greatest logit is one number

constexpr std::int32_t logit_blocks(std::int32_t vocab) {
  return (vocab + kBlockIds - 1) / kBlockIds;
}

struct LogitRow {
  const float* at = nullptr;  // [vocab]
  /// [logit_blocks(vocab)]: the greatest of each block, the last of which may be short; then all
  /// logits are finite. Null: neither is known.
  const float* maxima = nullptr;
};

}  // namespace holdfast::backend
