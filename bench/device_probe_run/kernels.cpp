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

constexpr double kErrorMost = 0.01;  // of the outputs' root mean square

constexpr Variant kVariants[] = {
    {"base_1", 1, true},       {"present_1", 1},    {"ahead_4", 1, false, 4},
    {"ahead_8", 1, false, 8},  {"base_8", 8, true}, {"present_8", 8},
    {"base_32", 32, true},     {"present_32", 32},  {"base_tile_512", 512, true},
    {"present_tile_512", 512},
};

void check(Run& run, const Variant& variant, const Shape& shape, const std::vector<Panel>& panels) {
  Card& card = run.card;
  const Batch batch(variant.rows, shape.k);
  const MemoryHandle weights = make_weights(card, panels, Order::kPacked, shape.bytes());
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
  Copies copies = make_copies(run, panels, Order::kPacked, shape);
  std::vector<Timed> all;
  for (const Variant* variant : variants) {
    const Batch batch(variant->rows, shape.k);
    all.push_back({"kernels." + name_of(shape) + "." + variant->name, variant->rows,
                   prepare(run, *variant, shape, batch, copies.memory), &copies});
  }
  time_in_turn(run, shape, all);
}

void compare(Run& run, const Shape& shape) {
  const std::vector<Panel> panels = make_panels(shape);
  std::vector<const Variant*> good;
  for (const Variant& variant : kVariants) {
    if (variant.of_base && run.options.base.empty()) continue;
    const std::string name = "kernels." + name_of(shape) + "." + variant.name;
    if (run.options.quick && variant.rows > 8) {
      run.report.skip(name, "quick: a processor's compiler takes minutes");
      continue;
    }
    const auto item = [&] { check(run, variant, shape, panels); };
    if (run.attempt(name, item)) good.push_back(&variant);
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
