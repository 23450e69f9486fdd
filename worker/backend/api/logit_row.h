#pragma once
// A row of logits with the maxima of its blocks: a search for the greatest of 150,000 logits need
// not go over all of them once more. Pure.

#include <cstdint>

#include "shared/plan/kernel_sizes.h"

namespace holdfast::backend {

inline constexpr std::int32_t kBlockIds = plan::kLogitBlockIds;

/// Returns the number of blocks of a row, the last of which may be short.
constexpr std::int32_t logit_blocks(std::int32_t vocab) {
  return (vocab + kBlockIds - 1) / kBlockIds;
}

/// A view of one row; its memory belongs to the backend.
struct LogitRow {
  const float* at = nullptr;  // [vocab]
  /// [logit_blocks(vocab)]: the greatest of each block (the last block may be short), given only if
  /// all logits are finite. Null: neither is known.
  const float* maxima = nullptr;
};

}  // namespace holdfast::backend
