// One kernel each, with the executor's rows, weights and numbers as arguments (kernels/*.cl).

#include <algorithm>

#include "worker/backend/opencl/single/operation_launcher.h"

namespace holdfast::opencl {
namespace {

/// The index of the least of `rows`, which rise, that is not less than n; of the last if all are.
std::size_t first_with_rows(std::span<const int> rows, std::int32_t n) {
  std::size_t i = 0;
  while (i + 1 < rows.size() && rows[i] < n) ++i;
  return i;
}

/// Items of a group of a product; `matrix`: it multiplies by the device's matrix instructions.
int items_of(const KernelCapabilities& capabilities, bool matrix) {
  if (capabilities.wide_lanes) return 1;
  return matrix ? kMatrixItems : kLanes;
}

/// Columns of a product from `first` on: those that are requested, or all.
std::int32_t columns_after(std::int32_t first, std::int32_t requested, std::int32_t all) {
  return (requested > 0 ? requested : all) - first;
}

/// The place of a vector `first` further on; -1: there is none.
std::int32_t offset_of(std::int32_t at, std::int32_t first) {
  return at < 0 ? -1 : at + first;
}

/// The number of experts in so many panels; 0 where a product has none.
std::int32_t experts_of(bool slots, std::int64_t panels, const DeviceMatrix& m) {
  return slots ? static_cast<std::int32_t>(panels / m.panels_each) : 0;
}

/// The part of a product's second matrix, whose columns come after its own; `more` null: none.
struct SecondPart {
  cpu::Format format;
  std::int64_t panels = 0;
  std::uint64_t panel_bytes = 0;
};
SecondPart second_part(const DeviceMatrix& m, const DeviceMatrix* more) {
  if (more == nullptr) return {m.format};
  return {more->format, more->panels, static_cast<std::uint64_t>(more->panel_bytes)};
}

/// The part of a matrix that one launch multiplies with: its first column, and its panels.
struct ExtentPart {
  std::int32_t first = 0;
  std::int64_t panels = 0;
};
ExtentPart part_of(const SlabExtent& extent, const DeviceMatrix& m, bool slots) {
  // Extents are experts then, not columns.
  if (slots || m.panels_each < m.panels) return {0, m.panels_each};
  return {static_cast<std::int32_t>(extent.first_panel * kLanes), extent.panels};
}

}  // namespace

bool can_concat(const std::vector<Product>& products) {
  return products.size() == 2 && products[0].matrix.extents.size() == 1 &&
         products[1].matrix.extents.size() == 1 &&
         products[0].matrix.spans == products[1].matrix.spans &&
         products[1].column == products[0].column + products[0].matrix.panels * kLanes;
}

/// x = (x * scale, if `add`) + rows of a matrix, by token or by position. `first_row`: the row of
/// the whole table at which this device's matrix begins.
void OperationLauncher::look_up(const Product& from, std::int32_t first_row, bool by_position,
                                bool add, float scale) {
  const DeviceMatrix& m = from.matrix;
  const ProductKernels& kernels = model_.kernels.product[static_cast<std::size_t>(m.format)];
  for (const SlabExtent& extent : m.extents) {
    const auto first = first_row + static_cast<std::int32_t>(extent.first_panel * kLanes);
    model_.queue.run(kernels.embed,
                     {static_cast<std::int64_t>(batch_.tokens.size()),
                      (m.spans + kLanes - 1) / kLanes, kLanes, 1},
                     model_.weights.slab(extent), extent.at,
                     static_cast<std::uint64_t>(m.panel_bytes), static_cast<std::int32_t>(m.spans),
                     first, first + static_cast<std::int32_t>(extent.panels * kLanes),
                     model_.scratch.tokens.get(), std::int32_t{by_position}, model_.scratch.x.get(),
                     model_.scratch.x.stride, static_cast<std::int32_t>(model_.shape.width),
                     std::int32_t{add}, scale);
  }
}

/// Factors of rows, where a product has them; else a buffer that is not read.
cl_mem OperationLauncher::gate_of(const Into& into) const {
  return into.gate_rows ? model_.scratch.gate.get() : model_.scratch.tokens.get();
}

/// True if one launch may multiply a row with both, because they lie in memory the same way.
bool OperationLauncher::are_pair(const DeviceMatrix& a, const DeviceMatrix& b) {
  const auto same = [](const SlabExtent& x, const SlabExtent& y) {
    return x.first_panel == y.first_panel && x.panels == y.panels;
  };
  return a.format == b.format && a.panels == b.panels && a.panels_each == b.panels_each &&
         std::equal(a.extents.begin(), a.extents.end(), b.extents.begin(), b.extents.end(), same);
}

const KernelHandle& OperationLauncher::kernel_of(const DeviceMatrix& m, const Second& second,
                                                 std::size_t shared) const {
  if (second.concat) return model_.kernels.concat.at({m.format, second.matrix->format})[shared];
  const ProductKernels& kernels = model_.kernels.product[static_cast<std::size_t>(m.format)];
  return (second.matrix != nullptr ? kernels.pair : kernels.one)[shared];
}

/// Tiles are for many rows of one matrix; CLBlast multiplies any number of them as such.
bool OperationLauncher::in_tiles(const From& from) const {
  if (from.slots) return false;
  return model_.dense.used || (model_.capabilities.tiles && from.rows >= kTileRowsLeast);
}

void OperationLauncher::tiles(const DeviceOp& op, const Product& p, const From& from,
                              const Into& into) {
  if (model_.dense.used) return dense(op, p, from, into);
  const DeviceMatrix& m = p.matrix;
  const auto all = static_cast<std::int32_t>(m.panels * kLanes);
  for (const SlabExtent& extent : m.extents) {
    const auto first = static_cast<std::int32_t>(extent.first_panel * kLanes);
    const auto panels = static_cast<std::int32_t>(extent.panels);
    const std::int32_t columns = columns_after(first, into.columns, all);
    const TileParameters parameters{
        .weights_at = extent.at,
        .panel_bytes = static_cast<std::uint64_t>(m.panel_bytes),
        .spans = static_cast<std::int32_t>(m.spans),
        .panels = panels,
        .x_stride = from.stride,
        .rows = from.rows,
        .squares_n = from.spread ? model_.scratch.squares.stride : 0,
        .norm_n = static_cast<std::int32_t>(model_.shape.width),
        .norm_eps = static_cast<float>(model_.shape.norm_eps),
        .y_at = p.column + first,
        .y_stride = into.stride,
        .y_cols = std::min(columns, panels * kLanes),
        .bias_at = offset_of(into.bias_at, first),
        .mode = into.mode,
        .activation = static_cast<std::int32_t>(op.activate),
        .scale = into.scale,
        .cap = into.cap,
        .gated = into.gate_rows,
    };
    model_.queue.run(model_.kernels.product[static_cast<std::size_t>(m.format)].tile,
                     {(panels + kTilePanels - 1) / kTilePanels,
                      (from.rows + kTileRows - 1) / kTileRows, kLanes, kTileRows / 4},
                     model_.weights.slab(extent), from.x, model_.scratch.squares.get(), into.y,
                     model_.weights.vectors(), gate_of(into), parameters);
  }
}

/// The numbers of a product that all parts of its matrix have in common.
ProductParameters OperationLauncher::parameters_of(const DeviceOp& op, const DeviceMatrix& m,
                                                   const From& from, const Into& into) const {
  ProductParameters parameters{};
  parameters.panel_bytes = static_cast<std::uint64_t>(m.panel_bytes);
  parameters.spans = static_cast<std::int32_t>(m.spans);
  parameters.panels_each = static_cast<std::int32_t>(m.panels_each);
  parameters.border = static_cast<std::int32_t>(m.panels);
  parameters.x_stride = from.stride;
  parameters.rows = from.rows;
  parameters.x_share = from.share;
  parameters.squares_n = from.spread ? model_.scratch.squares.stride : 0;
  parameters.norm_n = static_cast<std::int32_t>(model_.shape.width);
  parameters.norm_eps = static_cast<float>(model_.shape.norm_eps);
  parameters.y_stride = into.stride;
  parameters.mode = into.mode;
  parameters.activation = static_cast<std::int32_t>(op.activate);
  parameters.scale = into.scale;
  parameters.cap = into.cap;
  parameters.gated = into.gate_rows;
  parameters.next_squares_n = model_.scratch.squares.stride;
  parameters.next_at = into.next_norm_at;
  parameters.pack_int8 = into.pack_int8;
  return parameters;
}

void OperationLauncher::product(const DeviceOp& op, const Product& p, const From& from,
                                const Into& into, const Second& second) {
  if (in_tiles(from)) return tiles(op, p, from, into);
  const DeviceMatrix& m = p.matrix;
  if (into.next_norm_at >= 0) spread_for_ = into.next_norm_at;
  const SecondPart more = second_part(m, second.concat ? second.matrix : nullptr);
  const std::span<const int> rows = rows_shared(model_.capabilities, m.format, more.format);
  const std::size_t shared = from.slots ? 0 : first_with_rows(rows, from.rows);
  const KernelHandle& kernel = kernel_of(m, second, shared);
  const auto all = static_cast<std::int32_t>((m.panels_each + more.panels) * kLanes);
  const int items = items_of(model_.capabilities,
                             shared > 0 && by_matrix(model_.capabilities, m.format, more.format));
  const bool plain = shared > 0 || !has_row_ahead(model_.capabilities, m.format, more.format);
  ProductParameters parameters = parameters_of(op, m, from, into);
  for (std::size_t i = 0; i < m.extents.size(); ++i) {
    const SlabExtent& extent = m.extents[i];
    const SlabExtent& other = second.matrix != nullptr ? second.matrix->extents[i] : extent;
    const auto [first, own_panels] = part_of(extent, m, from.slots);
    const std::int64_t panels = own_panels + more.panels;
    const std::int32_t each = rows[shared];
    parameters.weights_at = extent.at;
    parameters.second_at = other.at;
    parameters.second_panel_bytes = more.panel_bytes;
    parameters.y_at = p.column + first;
    parameters.y_cols = columns_after(first, into.columns, all);
    parameters.bias_at = offset_of(into.bias_at, first);
    parameters.second_bias_at = offset_of(into.second_bias_at, first);
    parameters.first_expert = experts_of(from.slots, extent.first_panel, m);
    parameters.experts = experts_of(from.slots, extent.panels, m);
    const auto run = [&](auto... row_ahead) {
      model_.queue.run(
          kernel, {panels, (from.rows + each - 1) / each, items, kSlices},
          model_.weights.slab(extent), model_.weights.slab(other), from.x,
          model_.scratch.squares.get(), into.y, model_.weights.vectors(), gate_of(into),
          from.slots ? model_.scratch.expert.get() : model_.scratch.tokens.get(),
          model_.scratch.h.get(), model_.scratch.squares.get(), parameters, row_ahead...);
    };
    if (plain) {
      run();
    } else {
      const std::int32_t record_spans = record_spans_of(m.spans);
      run(record_spans, LocalBytes{static_cast<std::uint64_t>(record_spans) * kRecordSpanBytes});
    }
  }
}

/// The spans of a row that a product of one row has in local memory at a time: all, or as many as
/// fit.
std::int32_t OperationLauncher::record_spans_of(std::int64_t spans) const {
  const std::uint64_t local =
      std::min(model_.device_context->device().local_bytes, kRowLocalBytesMost);
  const auto fit = static_cast<std::int64_t>((local - kRowLocalBytes) / kRecordSpanBytes);
  const std::int64_t whole = (spans + kRecordSpansStep - 1) / kRecordSpansStep * kRecordSpansStep;
  return static_cast<std::int32_t>(std::min(whole, fit / kRecordSpansStep * kRecordSpansStep));
}

/// out = norm(x), or out += scale * norm(x).
void OperationLauncher::norm(const DeviceOp& op, cl_mem x, std::int32_t rows, cl_mem out,
                             bool add) {
  const auto n = static_cast<std::int32_t>(model_.shape.width);
  const bool rms = op.norm_kind == plan::NormKind::kRms;
  if (op.next_norm_at >= 0) spread_for_ = op.next_norm_at;
  const NormParameters parameters{
      .x_at = 0,
      .x_stride = model_.scratch.x.stride,
      .w_at = op.norm_at,
      .b_at = op.norm_bias_at,
      .stored = n,
      .n = n,
      .eps = static_cast<float>(model_.shape.norm_eps),
      .out_at = 0,
      .out_stride = model_.scratch.x.stride,
      .add = add,
      .scale = op.scale,
      .next_squares_n = model_.scratch.squares.stride,
      .next_at = op.next_norm_at,
  };
  model_.queue.run(rms ? model_.kernels.norm_rms : model_.kernels.norm_layer,
                   {rows, 1, kNormItems, 1}, x, model_.weights.vectors(), out,
                   model_.scratch.h.get(), model_.scratch.squares.get(), parameters);
}

/// The rows that a product takes: the operation's norm of x, or x as it is.
OperationLauncher::From OperationLauncher::normed(const DeviceOp& op, const Rows& x,
                                                  std::int32_t rows) {
  From from;
  from.stride = x.stride;
  from.rows = rows;
  from.spread = op.norm_inside;
  from.x = op.norm_at >= 0 || op.from_h ? model_.scratch.h.get() : x.get();
  if (op.norm_inside && spread_for_ == op.norm_at) return from;
  if (!op.norm_inside) {
    if (op.norm_at >= 0) norm(op, x.get(), rows, model_.scratch.h.get(), false);
    if (!model_.capabilities.int8_rows || (op.from_h && h_is_int8_)) return from;
    pack_int8(from.x, x.stride, rows, model_.shape.width, model_.scratch.h.get());
    h_is_int8_ = true;
    from.x = model_.scratch.h.get();
    return from;
  }
  model_.queue.run(model_.kernels.spread, {rows, 1, kNormItems, 1}, x.get(), x.stride,
                   model_.weights.vectors(), op.norm_at,
                   static_cast<std::int32_t>(model_.shape.width), model_.scratch.h.get(),
                   model_.scratch.squares.get(), model_.scratch.squares.stride);
  return from;
}

/// out = rows of n values as products read them; out may be x.
void OperationLauncher::pack_int8(cl_mem x, std::int32_t stride, std::int32_t rows, std::int64_t n,
                                  cl_mem out) {
  model_.queue.run(model_.kernels.int8_rows, {rows, 1, kNormItems, 1}, x, stride,
                   static_cast<std::int32_t>(n), out);
}

/// True if an operation may store its result as int8 rows: this device has all of it, in whole
/// panels.
bool OperationLauncher::leaves_int8_rows(const DeviceOp& op) const {
  return model_.capabilities.int8_rows && op.columns == 0;
}

/// One norm over `heads` heads of each token, in place.
void OperationLauncher::norm_heads(std::int32_t first_head, std::int32_t heads,
                                   std::int32_t weight_at) {
  const NormParameters parameters{
      .x_at = first_head * model_.head_pad,
      .x_stride = model_.scratch.qkv.stride,
      .w_at = weight_at,
      .b_at = -1,
      .stored = heads * model_.head_pad,
      .n = heads * static_cast<std::int32_t>(model_.shape.head_dim),
      .eps = static_cast<float>(model_.shape.norm_eps),
      .out_at = first_head * model_.head_pad,
      .out_stride = model_.scratch.qkv.stride,
      .add = 0,
      .scale = 1.0f,
      .next_squares_n = model_.scratch.squares.stride,
      .next_at = -1,
  };
  model_.queue.run(model_.kernels.norm_rms,
                   {static_cast<std::int64_t>(batch_.tokens.size()), 1, kNormItems, 1},
                   model_.scratch.qkv.get(), model_.weights.vectors(), model_.scratch.qkv.get(),
                   model_.scratch.h.get(), model_.scratch.squares.get(), parameters);
}

/// How an operation's heads are finished; without `rotate`, they are not turned.
OperationLauncher::HeadFinish OperationLauncher::finish_of(const DeviceOp& op, bool rotate) const {
  HeadFinish finish;
  finish.table = model_.weights.vectors();
  FinishParameters& parameters = finish.parameters;
  parameters.bias_at = op.bias_at[0];
  parameters.q_norm_at = op.head_norm_at[0];
  parameters.k_norm_at = op.head_norm_at[1];
  parameters.eps = static_cast<float>(model_.shape.norm_eps);
  parameters.neox = model_.shape.rope_style == plan::RopeStyle::kNeox ? 1 : 0;
  if (!rotate || op.rope < 0) return finish;
  finish.table = model_.scratch.rope_table[op.rope].get();
  parameters.sin_at =
      static_cast<std::uint64_t>(model_.limits.context) * static_cast<std::uint64_t>(model_.pairs);
  if (model_.has_query_rope) parameters.q_at = 2 * parameters.sin_at;
  parameters.pairs = model_.pairs;
  return finish;
}

/// The heads of an operation's rows; `keys_wait`: a later operation finishes its keys.
HeadParameters OperationLauncher::heads_of(bool keys_wait) const {
  return {
      .page_bytes = model_.page_bytes,
      .stride = model_.scratch.qkv.stride,
      .head_dim = static_cast<std::int32_t>(model_.shape.head_dim),
      .head_pad = model_.head_pad,
      .heads = static_cast<std::int32_t>(model_.shape.heads),
      .kv_heads = static_cast<std::int32_t>(model_.shape.kv_heads),
      .keys_wait = keys_wait,
  };
}

/// Applies bias, norm, rotation and storing to heads below `last_head`, as the operation says.
void OperationLauncher::finish_heads(const DeviceOp& op, std::int32_t last_head, bool keys_wait) {
  const bool second = op.kind == model::OpKind::kQkNorm;  // biases are added, norms are done
  const bool later = keys_wait;                           // a later kQkNorm norms and rotates
  const auto layer = static_cast<std::size_t>(op.cache_layer);
  HeadFinish finish = finish_of(op, !later);
  if (second) finish.parameters.bias_at = -1;
  if (second || later) finish.parameters.q_norm_at = finish.parameters.k_norm_at = -1;
  model_.queue.run(model_.kernels.finish_head,
                   {last_head, static_cast<std::int64_t>(batch_.tokens.size()), kAttentionItems, 1},
                   model_.scratch.qkv.get(), model_.scratch.tokens.get(),
                   model_.scratch.tables.get(), model_.weights.vectors(), finish.table,
                   model_.keys[layer].get(), model_.values[layer].get(), heads_of(keys_wait),
                   finish.parameters);
}

}  // namespace holdfast::opencl
