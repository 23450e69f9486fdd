// Kernels side by side: each one's result against the host's, then all in turn, forwards and
// backwards, over weights that no cache still holds.

#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "bench/device_probe_run/random.h"
#include "bench/device_probe_run/timing.h"
#include "bench/device_probe_run/variants.h"

namespace holdfast::bench::probe {
namespace {

using opencl::MemoryHandle;
using Kind = Variant::Kind;

constexpr double kErrorMost = 0.01;  // of the outputs' root mean square

constexpr Variant kVariants[] = {
    {"base_1", Kind::kPresent, 1, 0, true},    {"present_1", Kind::kPresent, 1},
    {"ahead_4", Kind::kAhead, 1, 4},           {"ahead_8", Kind::kAhead, 1, 8},
    {"ring8_4", Kind::kRing8, 4, 1},           {"ring8_8", Kind::kRing8, 8, 2},
    {"ring16_8", Kind::kRing16, 8, 1},         {"ring16_16", Kind::kRing16, 16, 2},
    {"ring16_32", Kind::kRing16, 32, 4},       {"base_8", Kind::kPresent, 8, 0, true},
    {"present_8", Kind::kPresent, 8},          {"present_32", Kind::kPresent, 32},
    {"tile16_512", Kind::kTile16, 512},        {"base_tile_512", Kind::kPresent, 512, 0, true},
    {"present_tile_512", Kind::kPresent, 512},
};

void check(Run& run, const Variant& variant, const Shape& shape, const std::vector<Panel>& panels) {
  Card& card = run.card;
  const Batch batch(variant.rows, shape.k);
  const MemoryHandle weights = make_weights(card, panels, variant.order(), shape.bytes());
  const Prepared ready = prepare(run, variant, shape, batch, weights);
  card.run(ready.kernel, ready.grid);
  const auto y = card.values_of<float>(ready.y, variant.rows * shape.rows);
  if (!card.good()) return;
  const std::string name = "kernels." + name_of(shape) + "." + variant.name;
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash_of(y.data(), y.size() * 4));
  run.fact("hash." + name, text);
  const double error = error_of(y, shape, panels, batch);
  run.report.add(name + ".error", std::isfinite(error) ? error : 1e9, "of the rms",
                 Goal{kErrorMost, Better::kLower}, "against float64 from the same codes");
  if (!(error <= kErrorMost))
    run.report.problem(name + ": the result is wrong; it is timed anyway");
}

void time_all(Run& run, const Shape& shape, const std::vector<const Variant*>& variants,
              const std::vector<Panel>& panels) {
  Copies orders[3];
  std::vector<Timed> all;
  for (const Variant* variant : variants) {
    Copies& order = orders[static_cast<int>(variant->order())];
    if (order.memory.get() == nullptr) {
      order = make_copies(run, panels, variant->order(), shape);
    }
    const Batch batch(variant->rows, shape.k);
    all.push_back({"kernels." + name_of(shape) + "." + variant->name, variant->rows,
                   prepare(run, *variant, shape, batch, order.memory), &order});
  }
  time_in_turn(run, shape, all);
}

void compare(Run& run, const Shape& shape) {
  const std::vector<Panel> panels = make_panels(shape);
  std::vector<const Variant*> good;
  for (const Variant& variant : kVariants) {
    if (variant.of_base && run.options.base.empty()) continue;
    const std::string name = "kernels." + name_of(shape) + "." + variant.name;
    if (run.options.quick && variant.kind == Kind::kPresent && variant.rows > 8) {
      run.report.skip(name, "quick: a processor's compiler takes minutes");
      continue;
    }
    const auto item = [&] { check(run, variant, shape, panels); };
    const bool succeeded =
        variant.needs_ptx() ? run.attempt_ptx(name, item) : run.attempt(name, item);
    if (succeeded) good.push_back(&variant);
  }
  run.attempt("kernels." + name_of(shape), [&] { time_all(run, shape, good, panels); });
}

}  // namespace

void probe_kernels(Run& run) {
  if (run.options.quick) return compare(run, {256, 2048});
  constexpr Shape kShapes[] = {
      {4096, 4096}, {28672, 4096}, {4096, 14336}, {6144, 4096}, {32000, 4096}};
  if (run.copy_rate == 0) run.attempt("ceilings.copy", [&] { measure_copy(run); });
  for (const Shape& shape : kShapes) compare(run, shape);
}

}  // namespace holdfast::bench::probe
