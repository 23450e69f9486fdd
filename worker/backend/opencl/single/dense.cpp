// Products by CLBlast, of loads that make vectors alone. Every product has one shape: kDenseRows
// rows, the last ones zeros where a batch has fewer, and columns that follow from the matrix. A
// row's sums then have the same order whatever lies next to it. Weights are unpacked to floats
// before a product, as many columns at a time as bound the memory; norms, biases, activations and
// attention are our own kernels'.

#include <algorithm>

#include "worker/backend/opencl/single/loader.h"
#include "worker/backend/opencl/single/operation_launcher.h"

namespace holdfast::opencl {
namespace {

std::int64_t groups_of(std::int64_t n, std::int64_t each) {
  return (n + each - 1) / each;
}

/// True if the operation multiplies all rows with one matrix after the other: no look-up, no
/// experts, and no logits, which such a load does not give.
bool has_dense_products(const DeviceOp& op) {
  using model::OpKind;
  return op.kind == OpKind::kNormQkv || op.kind == OpKind::kOutAdd || op.kind == OpKind::kDownAdd ||
         op.kind == OpKind::kNormGateUp || op.kind == OpKind::kRoute ||
         op.kind == OpKind::kNormDelta;
}

}  // namespace

/// Writes columns [first, first + columns) of a matrix as rows of floats, from wherever they lie.
void OperationLauncher::unpack(const DeviceMatrix& m, std::int64_t first, std::int64_t columns) {
  const std::int64_t begin = first / kLanes, end = begin + columns / kLanes;
  for (const SlabExtent& extent : m.extents) {
    const std::int64_t from = std::max(begin, extent.first_panel);
    const std::int64_t to = std::min(end, extent.first_panel + extent.panels);
    if (from >= to) continue;
    const std::int64_t before = (from - extent.first_panel) * m.panel_bytes;
    model_.queue.run(model_.dense.unpack[static_cast<std::size_t>(m.format)],
                     {to - from, groups_of(m.spans, kUnpackSpans),
                      model_.capabilities.wide_lanes ? 1 : kLanes, kUnpackSpans},
                     model_.weights.slab(extent), extent.at + static_cast<std::uint64_t>(before),
                     static_cast<std::uint64_t>(m.panel_bytes), static_cast<std::int32_t>(m.spans),
                     model_.dense.weights.get(), static_cast<std::int32_t>(m.spans * cpu::kSpan),
                     static_cast<std::int32_t>((from - begin) * kLanes));
  }
}

/// The sums of the block of rows that begins at `row`.
void OperationLauncher::multiply_block(const From& from, std::int64_t row, std::int64_t k,
                                       std::int64_t columns) {
  DenseModel& d = model_.dense;
  model_.queue.run(d.pad_rows, {kDenseRows, groups_of(k, kNormItems), kNormItems, 1}, from.x,
                   from.stride, static_cast<std::int32_t>(row), from.rows,
                   static_cast<std::int32_t>(k), d.rows.get());
  const auto done =
      d.products->multiply({&d.rows, kDenseRows, k, k}, {&d.weights, columns, k, k, 0, true},
                           {&d.sums, kDenseRows, columns, columns});
  if (!done && !failure_) failure_ = done.error();
}

void OperationLauncher::finish_block(const DeviceOp& op, const Product& p, const From& from,
                                     const Into& into, const Block& block) {
  const auto first = static_cast<std::int32_t>(block.column);
  const DenseParameters parameters{
      .row0 = static_cast<std::int32_t>(block.row),
      .sums_stride = static_cast<std::int32_t>(block.columns),
      .squares_n = from.spread ? model_.scratch.squares.stride : 0,
      .norm_n = static_cast<std::int32_t>(model_.shape.width),
      .norm_eps = static_cast<float>(model_.shape.norm_eps),
      .y_at = p.column + first,
      .y_stride = into.stride,
      .y_cols = static_cast<std::int32_t>(block.columns),
      .bias_at = into.bias_at < 0 ? -1 : into.bias_at + first,
      .mode = into.mode,
      .activation = static_cast<std::int32_t>(op.activate),
      .scale = into.scale,
      .cap = into.cap,
      .gated = into.gate_rows,
  };
  model_.queue.run(model_.dense.finish_rows,
                   {block.rows, groups_of(block.columns, kNormItems), kNormItems, 1},
                   model_.dense.sums.get(), model_.scratch.squares.get(), into.y,
                   model_.weights.vectors(), gate_of(into), parameters);
}

void OperationLauncher::dense(const DeviceOp& op, const Product& p, const From& from,
                              const Into& into) {
  const DeviceMatrix& m = p.matrix;
  const std::int64_t k = m.spans * cpu::kSpan, all = m.panels * kLanes;
  CHECK(into.columns == 0);
  for (std::int64_t first = 0; first < all; first += dense_columns(k)) {
    const std::int64_t columns = std::min(dense_columns(k), all - first);
    unpack(m, first, columns);
    for (std::int64_t row = 0; row < from.rows; row += kDenseRows) {
      multiply_block(from, row, k, columns);
      const std::int64_t rows = std::min<std::int64_t>(kDenseRows, from.rows - row);
      finish_block(op, p, from, into, {row, rows, first, columns});
    }
  }
}

/// Memory for the largest products. kUnsupported: there is no CLBlast.
Result<void> Loader::measure_dense() {
  DenseModel& d = model_.dense;
  if (!d.used) return {};
  HOLDFAST_TRY(d.products, DenseProducts::open(model_.queue.get()));
  std::int64_t rows = 1, weights = 1, sums = 1;
  std::uint64_t temporary = 0;
  const auto measure = [&](const DeviceMatrix& m) -> Result<void> {
    const std::int64_t k = m.spans * cpu::kSpan, all = m.panels * kLanes;
    for (const std::int64_t columns :
         {std::min(dense_columns(k), all), (all - 1) % dense_columns(k) + 1}) {
      rows = std::max(rows, kDenseRows * k);
      weights = std::max(weights, columns * k);
      sums = std::max(sums, kDenseRows * columns);
      HOLDFAST_TRY(const std::uint64_t bytes,
                   d.products->temporary_bytes({nullptr, kDenseRows, k, k},
                                               {nullptr, columns, k, k, 0, true},
                                               {nullptr, kDenseRows, columns, columns}));
      temporary = std::max(temporary, bytes);
    }
    return {};
  };
  for (const DeviceOp& op : model_.ops) {
    if (!has_dense_products(op)) continue;
    for (const Product& p : op.products) HOLDFAST_CHECKED(measure(p.matrix));
    for (const Product& p : op.others) HOLDFAST_CHECKED(measure(p.matrix));
  }
  reserve_scratch(d.rows, rows, "a block of rows");
  reserve_scratch(d.weights, weights, "unpacked weights");
  reserve_scratch(d.sums, sums, "sums of a block of rows");
  reserve_scratch(d.temporary, static_cast<std::int64_t>(temporary / sizeof(float)) + 1,
                  "copies of CLBlast");
  return {};
}

Result<void> Loader::make_dense_kernels() {
  DenseModel& d = model_.dense;
  if (!d.used) return {};
  d.products->use_temporary(d.temporary);
  const auto make_unpack = [&](const Product& p) -> Result<void> {
    KernelHandle& kernel = d.unpack[static_cast<std::size_t>(p.matrix.format)];
    if (kernel.get() != nullptr) return {};
    return make("unpack " + std::to_string(static_cast<int>(p.matrix.format)),
                unpack_source(p.matrix.format, model_.capabilities), {{"unpack", &kernel}});
  };
  for (const DeviceOp& op : model_.ops) {
    if (!has_dense_products(op)) continue;
    for (const Product& p : op.products) HOLDFAST_CHECKED(make_unpack(p));
    for (const Product& p : op.others) HOLDFAST_CHECKED(make_unpack(p));
  }
  return make("dense", dense_source(model_.capabilities),
              {{"pad_rows", &d.pad_rows}, {"finish_rows", &d.finish_rows}});
}

}  // namespace holdfast::opencl
