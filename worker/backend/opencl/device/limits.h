#pragma once
// Sizes that host and kernels agree on; the kernels get them as macros (sources.cpp).

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "shared/base/kv_page.h"

namespace holdfast::opencl {

inline constexpr int kLanes = 16;       // output rows of a panel (worker/weights/layout.h)
inline constexpr int kSlices = 8;       // parts of k that a work-group sums side by side
inline constexpr int kNormItems = 128;  // items that sum one row
/// Batch rows that share a weight read; there are kernels for each (kernels/product.cl).
inline constexpr int kRowsShared[] = {1, 4, 8};
/// The same where matrix units multiply more than one row.
inline constexpr int kRowsOfMatrix[] = {1, 8, 16, 32};
inline constexpr std::size_t kRowsKernels = std::size(kRowsOfMatrix);  // the longer list's size
inline constexpr int kMatrixItems = 32;  // of a work-group, for a slice (kernels/dots.cl)
/// A tile (kernels/tile.cl): its rows and panels, and the batch rows from which on it replaces the
/// kernels of kRowsShared. Only where items have one lane (where they add vectors a tile is not
/// faster) and the device has the local memory.
inline constexpr int kTileRows = 64, kTilePanels = 4, kTileRowsLeast = 33;
inline constexpr std::uint64_t kTileItems = kLanes * kTileRows / 4;
inline constexpr std::uint64_t kTileLocalBytes = 4 * (kTileRows * 36 + 32 * kLanes * kTilePanels);
/// Local memory of work-groups that multiply by matrix units: the sums of two matrices and 32 rows,
/// and their factors.
inline constexpr std::uint64_t kMatrixLocalBytes = 4 * kLanes * (2 * 32 * kSlices + 32 + kSlices);
/// Local memory of work-groups that multiply one int8 row (kernels/row_ahead.cl): a span of the
/// row, all else that such a group has there, and the most that it takes in all, so that k up to
/// 14,336 fits in what NVIDIA's devices say they have.
inline constexpr std::uint64_t kRecordSpanBytes = 2 * 48;
inline constexpr int kSpansAhead = 4;  // that an item loads at once, on GPUs
inline constexpr std::int64_t kRecordSpansStep = 2 * kSpansAhead * kSlices;
inline constexpr std::uint64_t kRowLocalBytes = 4 * kLanes * (2 * kSlices + kSlices + 1) + 128;
inline constexpr std::uint64_t kRowLocalBytesMost = 48 << 10;
/// Products by CLBlast (single/dense.cpp): the rows of each, so many that weights are worth
/// unpacking and so few that a lone text does not multiply zeros for long; the spans of k that a
/// work-group of kernels/unpack.cl has; and the columns, as many as bound the unpacked weights.
inline constexpr int kDenseRows = 64, kUnpackSpans = 8;
inline constexpr std::int64_t kDenseColumnsMost = 1024, kDenseColumnsStep = 64;
inline constexpr std::int64_t kDenseFloatsMost = 4 << 20;
inline constexpr int kBestParts = 32;  // of a row of logits, to find the greatest in
inline constexpr int kTopMost = 128;   // greatest logits that a device finds
// Items of a work-group of attention: the tokens of a page (shared/base/kv_page.h).
inline constexpr int kAttentionItems = static_cast<int>(kPageTokens);
inline constexpr int kSplitTokens = 512;  // absolute positions of a split of attention
inline constexpr int kHeadDimMost = 1024;
/// Recurrent layers' heads (kernels/delta.cl): the most items of a work-group, so elements of a
/// value, and the most elements of a key, which each item holds in registers.
inline constexpr int kDeltaItemsMost = 128, kStateKeyMost = 256;
/// Tokens of a segment up to which attention finishes their heads itself; every later token of the
/// segment repeats that work.
inline constexpr int kShortSegmentTokens = 8;

inline constexpr std::uint64_t kGroupItemsMost = kLanes * kSlices;
/// Local memory of attention: a query, two sums of values, scores.
inline constexpr std::uint64_t kLocalBytesMost = 4 * (3 * kHeadDimMost + 3 * kPageTokens);

}  // namespace holdfast::opencl
