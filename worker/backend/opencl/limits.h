#pragma once
// Sizes that host and kernels agree on; the kernels get them as macros (programs.cpp).

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace holdfast::opencl {

inline constexpr int kLanes = 16;       // output rows of a panel (worker/backend/cpu/layout.h)
inline constexpr int kSlices = 8;       // parts of k that a work-group sums side by side
inline constexpr int kNormItems = 128;  // items that sum one row
/// Batch rows that share a weight read; there are kernels for each (kernels/product.cl).
inline constexpr int kRowsShared[] = {1, 4, 8};
/// The same where matrix units multiply more than one row.
inline constexpr int kRowsOfMatrix[] = {1, 8, 16, 32};
inline constexpr std::size_t kRowsKernels = std::size(kRowsOfMatrix);  // the longer list's
inline constexpr int kMatrixItems = 32;  // of a group that have a slice there (kernels/dots.cl)
/// Of a tile (kernels/tile.cl), which takes the place of those from kTileRowsLeast rows on where
/// items have one lane (where they add vectors it is not faster) and the device has the room.
inline constexpr int kTileRows = 64, kTilePanels = 4, kTileRowsLeast = 33;
inline constexpr std::uint64_t kTileItems = kLanes * kTileRows / 4;
inline constexpr std::uint64_t kTileLocalBytes = 4 * (kTileRows * 36 + 32 * kLanes * kTilePanels);
/// Of groups that multiply by matrix units: the sums of two matrices and 32 rows, their factors.
inline constexpr std::uint64_t kMatrixLocalBytes = 4 * kLanes * (2 * 32 * kSlices + 32 + kSlices);
inline constexpr int kTopMost = 128;      // greatest logits that are picked on a device
inline constexpr int kPageTokens = 64;    // tokens of a KV page, and items of an attention group
inline constexpr int kSplitTokens = 512;  // attention splits, at absolute positions
inline constexpr int kHeadDimMost = 1024;
/// Of recurrent layers' heads (kernels/delta.cl): items of a group, so elements of a value, and
/// elements of a key, which each item has in registers.
inline constexpr int kDeltaItemsMost = 128, kStateKeyMost = 256;
/// Of a sequence in a batch: up to so many attention finishes their heads itself, which every later
/// one does again.
inline constexpr int kFewTokens = 8;

inline constexpr std::uint64_t kGroupItemsMost = kLanes * kSlices;
/// Attention's: a query, two sums of values, scores.
inline constexpr std::uint64_t kLocalBytesMost = 4 * (3 * kHeadDimMost + 3 * kPageTokens);

}  // namespace holdfast::opencl
