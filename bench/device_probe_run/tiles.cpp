#include "bench/device_probe_run/tiles.h"

#include <algorithm>

#include "bench/device_probe_run/random.h"

namespace holdfast::bench::probe {
namespace {

constexpr std::size_t kChainSteps = 32;

/// Any half but infinities and NaN: of all exponents up to 2^9, subnormal ones among them.
Half wide_half(Random& random) {
  const std::uint32_t word = random.word();
  return static_cast<Half>((word & 0x83ff) | (word >> 16) % 25 << 10);
}

void fill_normal(Tiles& tiles, Random& random) {
  for (Half& v : tiles.a) v = half_of(random.normal());
  for (Half& v : tiles.b) v = half_of(random.normal());
  for (float& v : tiles.c) v = 4 * random.normal();
}

/// Products in pairs that nearly cancel, and a start that is small or near one of the products.
void fill_cancelling(Tiles& tiles, Random& random) {
  fill_normal(tiles, random);
  for (std::size_t i = 1; i < tiles.a.size(); i += 2) {
    tiles.a[i] = static_cast<Half>((tiles.a[i - 1] ^ 0x8000) + random.below(3));
  }
  for (std::size_t i = 1; i < tiles.b.size(); i += 2) {
    tiles.b[i] = static_cast<Half>(tiles.b[i - 1] + random.below(2));
  }
  for (float& v : tiles.c) v = random.below(2) == 0 ? random.normal() * 1e-4f : random.normal();
}

void fill_wide(Tiles& tiles, Random& random) {
  for (Half& v : tiles.a) v = wide_half(random);
  for (Half& v : tiles.b) v = wide_half(random);
  for (float& v : tiles.c) {
    v = random.below(8) == 0 ? 0.0f
                             : std::ldexp(random.normal(), static_cast<int>(random.below(61)) - 40);
  }
}

/// Steps of large and of small products in turn.
void fill_chain(Tiles& tiles, Random& random) {
  fill_normal(tiles, random);
  for (std::size_t i = 0; i < tiles.a.size(); ++i) {
    const bool large = i / 256 % 2 == 0;
    tiles.a[i] = half_of(float_of(tiles.a[i]) * (large ? 64.0f : 0x1p-8f));
  }
}

}  // namespace

const char* name_of(TileKind kind) {
  switch (kind) {
    case TileKind::kNormal:
      return "normal";
    case TileKind::kCancelling:
      return "cancelling";
    case TileKind::kWide:
      return "wide";
    default:
      return "chain";
  }
}

Tiles make_tiles(TileKind kind, std::size_t count, bool shared) {
  Tiles tiles;
  tiles.steps = kind == TileKind::kChain ? kChainSteps : 1;
  tiles.tiles = std::max<std::size_t>(4, count / tiles.steps / 4 * 4);
  tiles.a.resize(tiles.tiles * tiles.steps * 256);
  tiles.b.resize(tiles.tiles * tiles.steps * 128);
  tiles.c.resize(tiles.tiles * 128);
  Random random(100 + static_cast<std::uint64_t>(kind));
  if (kind == TileKind::kNormal) fill_normal(tiles, random);
  if (kind == TileKind::kCancelling) fill_cancelling(tiles, random);
  if (kind == TileKind::kWide) fill_wide(tiles, random);
  if (kind == TileKind::kChain) fill_chain(tiles, random);
  const std::size_t each = tiles.steps * 128;
  for (std::size_t tile = 0; shared && tile < tiles.tiles; ++tile) {
    std::copy_n(tiles.b.begin() + static_cast<long>(tile / 4 * 4 * each), each,
                tiles.b.begin() + static_cast<long>(tile * each));
  }
  return tiles;
}

}  // namespace holdfast::bench::probe
