#pragma once
// Inputs of mma tiles of several kinds, as tiles.cl reads them.

#include <vector>

#include "bench/device_probe_run/half.h"

namespace holdfast::bench::probe {

enum class TileKind { kNormal, kCancelling, kWide, kChain };
constexpr TileKind kTileKinds[] = {TileKind::kNormal, TileKind::kCancelling, TileKind::kWide,
                                   TileKind::kChain};
const char* name_of(TileKind kind);

/// a[tile][step][16][16], b[tile][step][8][16], c[tile][16][8].
struct Tiles {
  std::size_t tiles = 0, steps = 1;
  std::vector<Half> a, b;
  std::vector<float> c;
};

/// About `count` mma steps of a kind; the number of tiles is a multiple of 4. Where `shared`, four
/// tiles in a row have the same b.
Tiles make_tiles(TileKind kind, std::size_t count, bool shared = false);

}  // namespace holdfast::bench::probe
