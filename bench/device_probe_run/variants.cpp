#include "bench/device_probe_run/variants.h"

#include <fstream>
#include <iterator>

#include "worker/backend/opencl/device/limits.h"
#include "worker/backend/opencl/device/sources.h"

namespace holdfast::bench::probe {
namespace {

using opencl::MemoryHandle;
using std::uint64_t;

/// The capabilities that the backend uses of this device, as far as its trials need not say.
opencl::KernelCapabilities capabilities_here(const Card& card) {
  opencl::KernelCapabilities capabilities;
  capabilities.tiles = capabilities.int8_rows = true;
  capabilities.matrix = 1;
  if (card.takes_ptx()) {
    capabilities.ahead = capabilities.shuffle = capabilities.dot = capabilities.matrix = 2;
  }
  return capabilities;
}

/// The text of the backend's kernels, or that of --base.
std::string present_source(Run& run, const Variant& variant) {
  if (!variant.of_base) {
    return opencl::product_source(cpu::Format::kQ4_K, capabilities_here(run.card));
  }
  std::ifstream file(run.options.base);
  if (!file) run.card.fail("read " + run.options.base + ": cannot be read; give another --base");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Kernels of one row may have two arguments more: the spans of the row that lie in local memory at
/// a time (here all), and that memory.
void set_row_memory(Card& card, const opencl::KernelHandle& kernel, int spans) {
  constexpr cl_uint kPlainArguments = 38;
  constexpr int kStep = opencl::kRecordSpansStep;
  if (card.arguments_of(kernel) <= kPlainArguments) return;
  const int held = (spans + kStep - 1) / kStep * kStep;
  card.set_at(kernel, kPlainArguments, held);
  card.set_at(kernel, kPlainArguments + 1,
              LocalBytes{static_cast<std::size_t>(held) * opencl::kRecordSpanBytes});
}

/// The backend's own kernel, with no epilogue; the arguments are those of its launches.
void prepare_present(Run& run, const Variant& variant, const Shape& shape, const Batch& batch,
                     const MemoryHandle& weights, Prepared& out) {
  Card& card = run.card;
  const auto program =
      card.build(variant.of_base ? "base" : "present", present_source(run, variant));
  const bool tile = variant.rows > 32;
  const std::string name = tile ? "tile" : "one_" + std::to_string(variant.rows);
  out.kernel = card.kernel(program, name.c_str());
  out.held.push_back(card.buffer_of(batch.int8_rows()));
  out.held.push_back(card.buffer(4096));
  const MemoryHandle &x = out.held[0], &none = out.held[1];
  const int panels = static_cast<int>(shape.rows / kPanelRows), k = static_cast<int>(shape.k);
  const int spans = k / cpu::kSpan, rows = static_cast<int>(variant.rows);
  const int columns = static_cast<int>(shape.rows);
  const uint64_t panel_bytes = shape.panel_bytes(), at = 0;
  if (tile) {
    card.set(out.kernel, weights, at, panel_bytes, spans, panels, x, k, rows, none, 0, 1, 0.0f,
             out.y, 0, columns, columns, none, -1, 0, 0, 1.0f, 0.0f, none, 0);
    out.grid = {shape.rows / kPanelRows / opencl::kTilePanels, variant.rows / opencl::kTileRows,
                opencl::kLanes, opencl::kTileRows / 4};
    return;
  }
  card.set(out.kernel, weights, at, panel_bytes, spans, panels, none, at, at, panels, x, k, rows, 1,
           none, 0, 1, 0.0f, out.y, 0, columns, columns, none, -1, -1, 0, 0, 1.0f, 0.0f, none, 0,
           none, 0, 0, none, none, 0, -1, 0);
  set_row_memory(card, out.kernel, spans);
  const std::size_t items = variant.rows > 1 ? opencl::kMatrixItems : opencl::kLanes;
  out.grid = {shape.rows / kPanelRows, 1, items, opencl::kSlices};
}

void prepare_ahead(Run& run, const Variant& variant, const Shape& shape, const Batch& batch,
                   const MemoryHandle& weights, Prepared& out) {
  Card& card = run.card;
  std::vector<Macro> macros{{"DEEP", variant.deep}};
  std::vector<const char*> files{"ahead"};
  if (card.takes_ptx()) {
    macros.push_back({"PTX", 1});
    files = {"ptx", "ahead"};
  }
  out.kernel = card.kernel(card.build(variant.name, program_text(files, macros)), "product");
  out.held.push_back(card.buffer_of(batch.int8_rows()));
  const std::size_t blocks = shape.k / kBlockK;
  card.set(out.kernel, weights, uint64_t{0}, uint64_t{shape.panel_bytes()},
           static_cast<int>(blocks), out.held[0], out.y, LocalBytes{blocks * 16 * 3 * 16});
  out.grid = {shape.rows / kPanelRows, 1, 16, 8};
}

}  // namespace

Prepared prepare(Run& run, const Variant& variant, const Shape& shape, const Batch& batch,
                 const MemoryHandle& weights) {
  Prepared out;
  const std::size_t bytes = variant.rows * shape.rows * 4;
  out.y = run.card.buffer(bytes);
  run.card.zero(out.y, bytes);
  (variant.deep > 0 ? prepare_ahead : prepare_present)(run, variant, shape, batch, weights, out);
  return out;
}

}  // namespace holdfast::bench::probe
