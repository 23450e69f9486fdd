#include "bench/device_probe_run/r3_variants.h"

#include <algorithm>

#include "bench/device_probe_run/r3_model.h"

namespace holdfast::bench::probe {
namespace {

using Kind = R3Variant::Kind;
using opencl::MemoryHandle;
using std::uint64_t;

constexpr std::size_t kLocalMost = 200 * 1024;  // that static local memory was found to have
constexpr std::size_t kTileRows = 128, kTileChunk = 16'384;

std::size_t ceil_of(std::size_t n, std::size_t d) {
  return (n + d - 1) / d;
}

/// Panels of a group that local memory has room for; small shapes share a program.
std::size_t panels_most(std::size_t panels, std::size_t groups) {
  return std::max<std::size_t>(3, ceil_of(panels, groups));
}

/// Bytes of a segment of x.
std::size_t x_segment(const R3Variant& variant) {
  return variant.rows == 1 ? kSegmentK * 2 : variant.columns() * 8 * kSegmentK * 2;
}

/// Panels of a tile.
std::size_t tile_panels(const R3Variant& variant) {
  return variant.panels * variant.warps / (variant.kind == Kind::kTile ? 2 : 1);
}

long as_long(std::size_t n) {
  return static_cast<long>(n);
}

std::vector<Macro> block_macros(const R3Variant& variant) {
  std::vector<Macro> macros{{"COLUMNS", as_long(variant.columns())},
                            {"PANELS", as_long(variant.panels)},
                            {"WARPS", as_long(variant.warps)},
                            {"STAGES", as_long(variant.stages)}};
  if (variant.rows == 1) macros.push_back({"ONE_ROW", 1});
  if (variant.ring_only) macros.push_back({"RING_ONLY", 1});
  return macros;
}

void prepare_panels(Run& run, const R3Variant& variant, const Shape& shape, const MemoryHandle& x,
                    const MemoryHandle& weights, Prepared& out) {
  Card& card = run.card;
  const std::size_t segments = shape.k / kSegmentK;
  std::vector<Macro> macros = block_macros(variant);
  macros.push_back({"X_SLOTS", as_long(variant.x_slots == 0 ? segments : variant.x_slots)});
  if (variant.x_slots == 0) macros.push_back({"RESIDENT", 1});
  const auto source = program_text({"ptx", "fragments", "r3_block", "r3_panels"}, macros);
  out.kernel = card.kernel(card.build(variant.name, source), "product");
  card.set(out.kernel, weights, uint64_t{0}, uint64_t{shape.panel_bytes()},
           static_cast<int>(shape.panels() / variant.panels), static_cast<int>(segments), x,
           uint64_t{shape.k * 16}, out.y, static_cast<int>(shape.rows));
  out.grid = {variant.groups(run.units()), 1, 32 * (variant.warps + 1), 1};
}

void prepare_segments(Run& run, const R3Variant& variant, const Shape& shape, const MemoryHandle& x,
                      const MemoryHandle& weights, Prepared& out) {
  Card& card = run.card;
  const std::size_t segments = shape.k / kSegmentK, groups = variant.groups(run.units());
  std::vector<Macro> macros = block_macros(variant);
  macros.push_back({"SPAN", as_long(segments / variant.spans)});
  macros.push_back(variant.spans > 1
                       ? Macro{"SPLIT", 1}
                       : Macro{"PANELS_MOST", as_long(panels_most(shape.panels(), groups))});
  const auto source = program_text({"ptx", "fragments", "r3_block", "r3_segments"}, macros);
  out.kernel = card.kernel(card.build(variant.name, source), "product");
  const std::size_t sums = shape.panels() * segments * variant.columns() * 512;
  out.held.push_back(card.buffer(variant.spans > 1 ? sums : 4096));
  out.held.push_back(card.buffer(shape.panels() * 4));
  card.zero(out.held[1], shape.panels() * 4);
  card.set(out.kernel, weights, uint64_t{0}, uint64_t{shape.panel_bytes()},
           static_cast<int>(shape.panels()), x, uint64_t{shape.k * 16}, out.y,
           static_cast<int>(shape.rows), out.held[0], out.held[1]);
  out.grid = {groups, variant.spans, 32 * variant.warps, 1};
}

void prepare_tile(Run& run, const R3Variant& variant, const Shape& shape, const MemoryHandle& x,
                  const MemoryHandle& weights, Prepared& out) {
  Card& card = run.card;
  const std::vector<Macro> macros{{"MP", as_long(variant.panels)},
                                  {"WARPS", as_long(variant.warps)},
                                  {"PANELS_OF_TILE", as_long(tile_panels(variant))},
                                  {"X_STAGES", as_long(variant.x_slots)}};
  if (variant.kind == Kind::kWgmma) {
    const auto source =
        program_text({"ptx", "fragments", "r3_feed", "wgmma_128", "r3_wgmma"}, macros);
    out.kernel = card.kernel(card.build_sm90a(variant.name, source), "product");
  } else {
    const auto source = program_text({"ptx", "fragments", "r3_feed", "r3_tile"}, macros);
    out.kernel = card.kernel(card.build(variant.name, source), "product");
  }
  card.set(out.kernel, weights, uint64_t{0}, uint64_t{shape.panel_bytes()},
           static_cast<int>(shape.k / kBlockK), x, uint64_t{shape.k * 16}, out.y,
           static_cast<int>(shape.rows));
  out.grid = {shape.panels() / tile_panels(variant), variant.rows / kTileRows, 32 * variant.warps,
              1};
}

/// The earlier tile, which some of these are to beat.
void prepare_tile16(Run& run, const R3Variant& variant, const Shape& shape, const MemoryHandle& x,
                    const MemoryHandle& weights, Prepared& out) {
  Card& card = run.card;
  const auto source = program_text({"ptx", "fragments", "tile16"});
  out.kernel = card.kernel(card.build(variant.name, source), "product");
  card.set(out.kernel, weights, uint64_t{0}, uint64_t{shape.panel_bytes()},
           static_cast<int>(shape.k / kBlockK), x, uint64_t{shape.k}, out.y,
           static_cast<int>(shape.rows));
  out.grid = {shape.rows / kTileRows, variant.rows / kTileRows, 256, 1};
}

}  // namespace

std::size_t R3Variant::local_bytes(const Shape& shape, std::size_t units) const {
  const std::size_t segments = shape.k / kSegmentK, ring = warps * stages * panels * kBlockBytes;
  const std::size_t bars = (warps * stages + 2 * segments) * 8;
  if (kind == Kind::kPanels) {
    return (x_slots == 0 ? segments : x_slots) * x_segment(*this) + ring + bars;
  }
  if (kind == Kind::kSegments) {
    const std::size_t span = segments / spans;
    const std::size_t most = panels_most(shape.panels(), groups(units));
    const std::size_t sums = spans > 1 ? 0 : most * span * columns() * 512;
    return span * x_segment(*this) + ring + bars + sums;
  }
  if (kind != Kind::kTile && kind != Kind::kWgmma) return 0;
  const std::size_t totals = kind == Kind::kTile ? warps * panels * 4096 : 0;
  return totals + 2 * tile_panels(*this) * kBlockBytes + x_slots * kTileChunk + 256;
}

bool R3Variant::fits(const Shape& shape, std::size_t units) const {
  if (shape.k / kSegmentK % spans != 0 || groups(units) == 0) return false;
  const bool large = shape.panels() >= 4 * units;
  if ((kind == Kind::kPanels && !large) || (kind == Kind::kSegments && large)) return false;
  const bool tile = kind == Kind::kTile || kind == Kind::kWgmma;
  if (tile && shape.panels() % tile_panels(*this) != 0) return false;
  return local_bytes(shape, units) * groups_each <= kLocalMost;
}

R3Rows r3_rows(const R3Variant& variant) {
  if (variant.rows == 1) return R3Rows::kByRow;
  return variant.kind == Kind::kWgmma ? R3Rows::kCores : R3Rows::kFragments;
}

std::vector<Half> r3_x(const R3Variant& variant, const Batch& batch) {
  const R3Rows rows = r3_rows(variant);
  if (rows == R3Rows::kByRow) return batch.half_rows();
  return rows == R3Rows::kCores ? batch.half_cores() : batch.half_tiles();
}

Prepared prepare_r3(Run& run, const R3Variant& variant, const Shape& shape, const MemoryHandle& x,
                    const MemoryHandle& weights) {
  Prepared out;
  const std::size_t bytes = variant.rows * shape.rows * 4;
  out.y = run.card.buffer(bytes);
  run.card.zero(out.y, bytes);
  if (variant.kind == Kind::kPanels) prepare_panels(run, variant, shape, x, weights, out);
  if (variant.kind == Kind::kSegments) prepare_segments(run, variant, shape, x, weights, out);
  if (variant.kind == Kind::kTile || variant.kind == Kind::kWgmma) {
    prepare_tile(run, variant, shape, x, weights, out);
  }
  if (variant.kind == Kind::kTile16) prepare_tile16(run, variant, shape, x, weights, out);
  return out;
}

}  // namespace holdfast::bench::probe
