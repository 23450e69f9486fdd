#include "bench/device_probe_run/variants.h"

#include <fstream>
#include <iterator>

#include "worker/backend/opencl/device/limits.h"
#include "worker/backend/opencl/device/sources.h"
#include "worker/backend/opencl/single/kernel_parameters.h"

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

constexpr cl_uint kTileArguments = 7, kProductArguments = 11;  // the last one is the block

/// Fails unless the kernel has the arguments of this build's, of which `more` may follow.
void check_arguments(Card& card, const opencl::KernelHandle& kernel, cl_uint plain, cl_uint more) {
  const cl_uint count = card.arguments_of(kernel);
  if (count == plain || count == plain + more) return;
  card.fail("the kernel has " + std::to_string(count) + " arguments, expected " +
            std::to_string(plain) + "; --base wants a text with this build's parameter blocks");
}

/// Kernels of one row may have two arguments more: the spans of the row that lie in local memory at
/// a time (here all), and that memory.
void set_row_memory(Card& card, const opencl::KernelHandle& kernel, int spans) {
  constexpr int kStep = opencl::kRecordSpansStep;
  if (card.arguments_of(kernel) <= kProductArguments) return;
  const int held = (spans + kStep - 1) / kStep * kStep;
  card.set_at(kernel, kProductArguments, held);
  card.set_at(kernel, kProductArguments + 1,
              LocalBytes{static_cast<std::size_t>(held) * opencl::kRecordSpanBytes});
}

/// Sets the beginning of the weights in a copy of the block, which is argument `argument`.
template <class Block>
auto begin_in_block(const Block& block, cl_uint argument) {
  return [block, argument](Card& card, const opencl::KernelHandle& kernel, uint64_t at) {
    Block moved = block;
    moved.weights_at = at;
    card.set_at(kernel, argument, moved);
  };
}

/// The numbers of a product without norm, bias, gate and experts.
opencl::TileParameters tile_parameters(const Shape& shape, const Variant& variant) {
  opencl::TileParameters block{};
  block.panel_bytes = shape.panel_bytes();
  block.spans = static_cast<int>(shape.k / cpu::kSpan);
  block.panels = static_cast<int>(shape.rows / kPanelRows);
  block.x_stride = static_cast<int>(shape.k);
  block.rows = static_cast<int>(variant.rows);
  block.norm_n = 1;
  block.y_stride = block.y_cols = static_cast<int>(shape.rows);
  block.bias_at = -1;
  block.scale = 1.0f;
  return block;
}

/// The same for the kernels of a small number of rows.
opencl::ProductParameters product_parameters(const Shape& shape, const Variant& variant) {
  const opencl::TileParameters tile = tile_parameters(shape, variant);
  opencl::ProductParameters block{};
  block.panel_bytes = tile.panel_bytes;
  block.spans = tile.spans;
  block.panels_each = block.border = tile.panels;
  block.x_stride = tile.x_stride;
  block.rows = tile.rows;
  block.x_share = block.norm_n = 1;
  block.y_stride = block.y_cols = tile.y_cols;
  block.bias_at = block.second_bias_at = block.next_at = -1;
  block.scale = 1.0f;
  return block;
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
  if (tile) {
    check_arguments(card, out.kernel, kTileArguments, 0);
    const opencl::TileParameters block = tile_parameters(shape, variant);
    card.set(out.kernel, weights, x, none, out.y, none, none, block);
    out.set_begin = begin_in_block(block, kTileArguments - 1);
    out.grid = {shape.rows / kPanelRows / opencl::kTilePanels, variant.rows / opencl::kTileRows,
                opencl::kLanes, opencl::kTileRows / 4};
    return;
  }
  check_arguments(card, out.kernel, kProductArguments, 2);
  const opencl::ProductParameters block = product_parameters(shape, variant);
  card.set(out.kernel, weights, none, x, none, out.y, none, none, none, none, none, block);
  out.set_begin = begin_in_block(block, kProductArguments - 1);
  set_row_memory(card, out.kernel, static_cast<int>(shape.k / cpu::kSpan));
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
