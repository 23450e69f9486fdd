// Kernels of r3-f16 side by side: each one's bits against the host's model and those of the others,
// then all in turn, over weights that no cache still holds.

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "bench/device_probe_run/r3_model.h"
#include "bench/device_probe_run/r3_variants.h"
#include "bench/device_probe_run/random.h"
#include "bench/device_probe_run/timing.h"

namespace holdfast::bench::probe {
namespace {

using opencl::MemoryHandle;
using Kind = R3Variant::Kind;

constexpr double kErrorMost = 0.01;        // of the outputs' root mean square
constexpr std::size_t kExpectedRows = 32;  // of the batch, compared with the model
constexpr double kSecondsToTime = 3;       // that are left for times when checks take long
constexpr std::size_t kComparedRows = 32;  // compared between variants

// name, kind, rows, warps, stages, panels of a warp, slots of x, spans, groups each, ring only
constexpr R3Variant kVariants[] = {
    // A warp a panel.
    {"r3a_1", Kind::kPanels, 1, 14, 4},
    {"r3a_1_stages2", Kind::kPanels, 1, 14, 2},
    {"r3a_1_warps16", Kind::kPanels, 1, 16, 4},
    {"r3a_1_groups2", Kind::kPanels, 1, 7, 5, 1, 0, 1, 2},
    {"r3a_1_ring", Kind::kPanels, 1, 14, 4, 1, 0, 1, 1, true},
    {"r3a_8", Kind::kPanels, 8, 14, 4},
    {"r3a_8_warps16", Kind::kPanels, 8, 16, 4, 1, 3},
    {"r3a_8_panels2", Kind::kPanels, 8, 7, 4, 2},
    {"r3a_8_ring", Kind::kPanels, 8, 14, 4, 1, 0, 1, 1, true},
    {"r3a_16", Kind::kPanels, 16, 14, 4, 1, 4},
    {"r3a_16_panels2", Kind::kPanels, 16, 7, 4, 2, 4},
    {"r3a_32", Kind::kPanels, 32, 14, 3, 1, 3},
    {"r3a_32_panels2", Kind::kPanels, 32, 7, 3, 2, 3},
    // A warp a segment.
    {"r3a_1_segments", Kind::kSegments, 1, 16, 2},
    {"r3a_1_segments_stages4", Kind::kSegments, 1, 16, 4},
    {"r3a_1_segments_warps8", Kind::kSegments, 1, 8, 6},
    {"r3a_1_segments_split4", Kind::kSegments, 1, 16, 4, 1, 0, 4},
    {"r3a_1_segments_ring", Kind::kSegments, 1, 16, 4, 1, 0, 1, 1, true},
    {"r3a_8_segments", Kind::kSegments, 8, 16, 2},
    {"r3a_8_segments_split2", Kind::kSegments, 8, 16, 2, 1, 0, 2},
    {"r3a_8_segments_split4", Kind::kSegments, 8, 16, 3, 1, 0, 4},
    {"r3a_8_segments_ring", Kind::kSegments, 8, 16, 3, 1, 0, 4, 1, true},
    {"r3a_16_segments_split4", Kind::kSegments, 16, 16, 2, 1, 0, 4},
    {"r3a_32_segments_split4", Kind::kSegments, 32, 16, 2, 1, 0, 4},
    {"r3a_32_segments_split7", Kind::kSegments, 32, 14, 2, 1, 0, 7},
    {"r3a_32_segments_split14", Kind::kSegments, 32, 16, 3, 1, 0, 14},
    // Many rows; the last one is the earlier kernel.
    {"r3a_tile_128", Kind::kTile, 512, 8, 0, 2, 4},
    {"r3a_tile_128_warps16", Kind::kTile, 512, 16, 0, 1, 4},
    {"r3a_tile_192", Kind::kTile, 512, 12, 0, 2, 3},
    {"r3a_tile_192_warps8", Kind::kTile, 512, 8, 0, 3, 3},
    {"r3a_wgmma_128", Kind::kWgmma, 512, 8, 0, 1, 4},
    {"r3a_wgmma_192", Kind::kWgmma, 512, 12, 0, 1, 4},
    {"tile16", Kind::kTile16, 512},
};

/// Inputs that the variants of a shape share; the device's are made anew after a failure.
struct Inputs {
  explicit Inputs(const Shape& shape)
      : shape(shape),
        panels(make_panels(shape)),
        expected(shape, panels, {kExpectedRows, shape.k}) {}

  const Shape shape;
  const std::vector<Panel> panels;
  const R3Expected expected;
  std::map<std::size_t, Batch> batches;             // by rows
  std::map<std::size_t, std::vector<float>> found;  // by row of the batch: its first result
  std::map<std::pair<std::size_t, R3Rows>, MemoryHandle> x;  // by rows and order
  Copies weights;

  const Batch& batch(std::size_t rows) {
    return batches.try_emplace(rows, rows, shape.k).first->second;
  }
};

std::string name_of(const R3Variant& variant, const Shape& shape) {
  return "r3." + name_of(shape) + "." + variant.name;
}

Prepared prepare(Run& run, const R3Variant& variant, Inputs& in) {
  if (in.weights.memory.get() == nullptr) {
    in.weights = make_copies(run, in.panels, Order::kHalves, in.shape);
  }
  MemoryHandle& x = in.x[{variant.rows, r3_rows(variant)}];
  if (x.get() == nullptr) x = run.card.buffer_of(r3_x(variant, in.batch(variant.rows)));
  return prepare_r3(run, variant, in.shape, x, in.weights.memory);
}

/// Outputs with other bits than the first variant that had the row.
std::size_t unlike_others(const R3Variant& variant, const std::vector<float>& y, Inputs& in) {
  std::size_t count = 0;
  for (std::size_t row = 0; row < std::min(variant.rows, kComparedRows); ++row) {
    const auto begin = y.begin() + static_cast<std::ptrdiff_t>(row * in.shape.rows);
    const std::vector<float> mine(begin, begin + static_cast<std::ptrdiff_t>(in.shape.rows));
    const auto [other, is_new] = in.found.try_emplace(row, mine);
    for (std::size_t i = 0; i < mine.size() && !is_new; ++i) {
      count += std::memcmp(&mine[i], &other->second[i], sizeof(float)) != 0;
    }
  }
  return count;
}

/// Runs the kernel twice, for what it may leave behind, and judges the second result.
void check(Run& run, const R3Variant& variant, Inputs& in) {
  Card& card = run.card;
  const Prepared ready = prepare(run, variant, in);
  card.run(ready.kernel, ready.grid);
  card.run(ready.kernel, ready.grid);
  if (!card.good() || variant.ring_only) return;
  const auto y = card.values_of<float>(ready.y, variant.rows * in.shape.rows);
  if (!card.good()) return;
  const std::string name = name_of(variant, in.shape);
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash_of(y.data(), in.shape.rows * 4));
  run.fact("hash_of_row_0." + name, text);
  const double error = error_of(y, in.shape, in.panels, in.batch(variant.rows));
  run.report.add(name + ".error", std::isfinite(error) ? error : 1e9, "of the rms",
                 Goal{kErrorMost, Better::kLower}, "against float64 from the same codes");
  std::size_t of = 0;
  const std::size_t bits = in.expected.differing(y, in.shape, variant.rows, of);
  const std::size_t others = unlike_others(variant, y, in);
  run.report.add(name + ".unlike_model", static_cast<double>(bits), "outputs",
                 Goal{0, Better::kLower}, "of " + std::to_string(of));
  run.report.add(name + ".unlike_others", static_cast<double>(others), "outputs",
                 Goal{0, Better::kLower}, "of the rows that other variants have too");
  if (bits + others > 0 || !(error <= kErrorMost)) {
    run.report.problem(name + ": the result is wrong; it is timed anyway");
  }
}

void time_all(Run& run, const std::vector<const R3Variant*>& variants, Inputs& in) {
  std::vector<Timed> all;
  for (const R3Variant* variant : variants) {
    Prepared ready = prepare(run, *variant, in);
    all.push_back({name_of(*variant, in.shape), variant->rows, std::move(ready), &in.weights, {}});
  }
  time_in_turn(run, in.shape, all);
}

void compare(Run& run, const Shape& shape) {
  if (run.seconds_left() <= 0) return;
  Inputs in(shape);
  std::vector<const R3Variant*> good;
  for (const R3Variant& variant : kVariants) {
    if (!variant.fits(shape, run.units()) || run.seconds_left() < kSecondsToTime) continue;
    if (run.attempt_ptx(name_of(variant, shape), [&] { check(run, variant, in); })) {
      good.push_back(&variant);
    } else {
      in.x.clear();  // the context is another one
      in.weights = {};
    }
  }
  run.attempt_ptx("r3." + name_of(shape), [&] { time_all(run, good, in); });
}

/// The time of a kernel that does nothing, by the same clock.
void time_nothing(Run& run) {
  Card& card = run.card;
  const auto kernel = card.kernel(card.build("launch", program_text({"launch"})), "empty_1");
  const auto x = card.buffer(4096);
  card.set(kernel, x);
  std::vector<double> us;
  for (std::size_t i = 0; i < run.count(30, 2); ++i) {
    us.push_back(card.run(kernel, {run.units(), 1, 512, 1}));
  }
  if (card.good()) run.report.add_samples("r3.nothing.us", us, "us", Better::kLower);
}

}  // namespace

void probe_r3(Run& run) {
  constexpr Shape kShapes[] = {
      {28672, 4096}, {4096, 14336}, {4096, 4096}, {6144, 4096}, {32000, 4096}};
  if (run.copy_rate == 0 && !run.options.quick) {
    run.attempt("ceilings.copy", [&] { measure_copy(run); });
  }
  run.attempt("r3.nothing", [&] { time_nothing(run); });
  if (run.options.quick) return compare(run, {1536, 2048});
  for (const Shape& shape : kShapes) compare(run, shape);
}

}  // namespace holdfast::bench::probe
