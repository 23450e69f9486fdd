#pragma once
// Sizes of the CPU backend's kernels on which memory depends, the same for every instruction set: a
// load is planned before it is decided which one runs. For sources of kernels too, so it includes
// nothing that has code.

#include <cstddef>
#include <cstdint>

#include "shared/base/kv_page.h"

namespace holdfast::plan {

/// Returns the least multiple of `to` that is at least `n`; both are positive.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

inline constexpr int kLanes = 16;           // rows in a panel of packed weights
inline constexpr int kSpan = 32;            // every packed block is a whole number of spans along k
inline constexpr int kTilePanels = 8;       // panels that a wide product unpacks at once
inline constexpr int kItemPanelsMost = 16;  // panels in a work item, for any family

/// The stride in floats of a work item's rows: 16 more than its columns, so that rows do not share
/// cache sets.
constexpr std::int64_t item_cols(std::int64_t panels) {
  return (panels + 1) * kLanes;
}

/// Up to this many rows are normalised by every thread for itself, which saves a barrier.
inline constexpr std::int64_t kPrivateRows = 4;

inline constexpr int kActivationBlock = 32;  // elements of a row that share a scale
/// Bytes of a block of an int15 row, the widest format of activations.
inline constexpr std::size_t kActivationBlockBytes = 96;

/// Floats of matmul's scratch for a wide product, one thread: amx takes half of it (twice two
/// panels of 2,048 k as bfloat16), the others an eighth.
inline constexpr std::int64_t kUnpackFloats = 8 * 2048 * kLanes / 2;

/// The most queries (tokens x group) of one call of attention, unless one token's group is larger.
/// Each family says how many it prefers (cpu::Kernels::attention_queries).
inline constexpr std::int32_t kAttentionQueriesMost = 256;

/// Floats that amx/attention.inc needs in addition: tiles of the queries, of a page, and of a block
/// of scores.
constexpr std::int64_t attention_tile_floats(std::int64_t queries, std::int64_t head_pad) {
  const std::int64_t wide = round_up(head_pad, 32);
  return (round_up(queries, 16) + 2 * kPageTokens) * wide + 64 * kPageTokens;
}
constexpr std::int64_t attention_scratch_floats(std::int64_t queries, std::int64_t head_pad) {
  return queries * (2 * head_pad + 4) + 2 * kPageTokens * head_pad + 8 * kPageTokens + 64 +
         attention_tile_floats(queries, head_pad);
}

/// Tokens of a recurrent layer whose inputs are computed at once.
inline constexpr int kDeltaTokens = 16;
constexpr std::int64_t delta_scratch_floats(std::int64_t keys, std::int64_t values) {
  return kDeltaTokens * 2 * (round_up(keys, kLanes) + round_up(values, kLanes) + 1);
}

/// Ids of a row of logits that share one maximum.
inline constexpr std::int32_t kLogitBlockIds = 128;

}  // namespace holdfast::plan
