// One kernel each: what the executor's rows, weights and numbers are as arguments (kernels/*.cl).

#include <algorithm>

#include "worker/backend/opencl/executor.h"

namespace holdfast::opencl {

bool are_beside(const std::vector<Product>& products) {
  return products.size() == 2 && products[0].matrix.pieces.size() == 1 &&
         products[1].matrix.pieces.size() == 1 &&
         products[0].matrix.spans == products[1].matrix.spans &&
         products[1].column == products[0].column + products[0].matrix.panels * kLanes;
}

/// x = (x * scale, if `add`) + rows of a matrix, by token or by position.
/// `first_row`: of the table, that the matrix here begins with.
void OpenclExecutor::look_up(const Product& from, std::int32_t first_row, bool by_position,
                             bool add, float scale) {
  const DeviceMatrix& m = from.matrix;
  const ProductKernels& kernels = kernels_.product[static_cast<std::size_t>(m.format)];
  for (const Piece& piece : m.pieces) {
    const auto first = first_row + static_cast<std::int32_t>(piece.first_panel * kLanes);
    queue_.run(
        kernels.embed,
        {static_cast<std::int64_t>(tokens_.size()), (m.spans + kLanes - 1) / kLanes, kLanes, 1},
        weights_.slab(piece), piece.at, static_cast<std::uint64_t>(m.panel_bytes),
        static_cast<std::int32_t>(m.spans), first,
        first + static_cast<std::int32_t>(piece.panels * kLanes), scratch_.tokens.get(),
        std::int32_t{by_position}, scratch_.x.get(), scratch_.x.stride,
        static_cast<std::int32_t>(shape_.width), std::int32_t{add}, scale);
  }
}

/// Whether one launch may multiply a row with both: they lie in memory the same way.
bool OpenclExecutor::are_pair(const DeviceMatrix& a, const DeviceMatrix& b) {
  const auto same = [](const Piece& x, const Piece& y) {
    return x.first_panel == y.first_panel && x.panels == y.panels;
  };
  return a.format == b.format && a.panels == b.panels && a.panels_each == b.panels_each &&
         std::equal(a.pieces.begin(), a.pieces.end(), b.pieces.begin(), b.pieces.end(), same);
}

const KernelHandle& OpenclExecutor::kernel_of(const DeviceMatrix& m, const Second& second,
                                              std::size_t shared) const {
  if (second.beside) return kernels_.beside.at({m.format, second.matrix->format})[shared];
  const ProductKernels& kernels = kernels_.product[static_cast<std::size_t>(m.format)];
  return (second.matrix != nullptr ? kernels.pair : kernels.one)[shared];
}

/// Many rows of one matrix.
bool OpenclExecutor::in_tiles(const From& from) const {
  return ways_.tiles && !from.slots && from.rows >= kTileRowsLeast;
}

void OpenclExecutor::tiles(const DeviceOp& op, const Product& p, const From& from,
                           const Into& into) {
  const DeviceMatrix& m = p.matrix;
  const auto all = static_cast<std::int32_t>(m.panels * kLanes);
  for (const Piece& piece : m.pieces) {
    const auto first = static_cast<std::int32_t>(piece.first_panel * kLanes);
    const auto panels = static_cast<std::int32_t>(piece.panels);
    const std::int32_t columns = (into.columns > 0 ? into.columns : all) - first;
    queue_.run(kernels_.product[static_cast<std::size_t>(m.format)].tile,
               {(panels + kTilePanels - 1) / kTilePanels, (from.rows + kTileRows - 1) / kTileRows,
                kLanes, kTileRows / 4},
               weights_.slab(piece), piece.at, static_cast<std::uint64_t>(m.panel_bytes),
               static_cast<std::int32_t>(m.spans), panels, from.x, from.stride, from.rows,
               scratch_.squares.get(), from.spread ? scratch_.squares.stride : 0,
               static_cast<std::int32_t>(shape_.width), static_cast<float>(shape_.norm_eps), into.y,
               p.column + first, into.stride, std::min(columns, panels * kLanes),
               weights_.vectors(), into.bias_at < 0 ? -1 : into.bias_at + first, into.mode,
               static_cast<std::int32_t>(op.activate), into.scale, into.cap,
               into.gate_rows ? scratch_.gate.get() : scratch_.tokens.get(),
               std::int32_t{into.gate_rows});
  }
}

void OpenclExecutor::product(const DeviceOp& op, const Product& p, const From& from,
                             const Into& into, const Second& second) {
  if (in_tiles(from)) return tiles(op, p, from, into);
  const DeviceMatrix& m = p.matrix;
  if (into.next_norm_at >= 0) spread_for_ = into.next_norm_at;
  const cpu::Format beside = second.beside ? second.matrix->format : m.format;
  const std::span<const int> rows = rows_shared(ways_, m.format, beside);
  std::size_t shared = 0;
  while (!from.slots && shared + 1 < rows.size() && rows[shared] < from.rows) ++shared;
  const KernelHandle& kernel = kernel_of(m, second, shared);
  const auto all = static_cast<std::int32_t>(
      (m.panels_each + (second.beside ? second.matrix->panels : 0)) * kLanes);
  for (std::size_t i = 0; i < m.pieces.size(); ++i) {
    const Piece& piece = m.pieces[i];
    const Piece& other = second.matrix != nullptr ? second.matrix->pieces[i] : piece;
    const bool whole = from.slots || m.panels_each < m.panels;  // pieces are experts, not columns
    const std::int64_t panels =
        (whole ? m.panels_each : piece.panels) + (second.beside ? second.matrix->panels : 0);
    const auto first = whole ? 0 : static_cast<std::int32_t>(piece.first_panel * kLanes);
    const bool matrix = shared > 0 && by_matrix(ways_, m.format, beside);
    const int items = ways_.wide_lanes ? 1 : matrix ? kMatrixItems : kLanes;
    const std::int32_t each = rows[shared];
    queue_.run(
        kernel, {panels, (from.rows + each - 1) / each, items, kSlices}, weights_.slab(piece),
        piece.at, static_cast<std::uint64_t>(m.panel_bytes), static_cast<std::int32_t>(m.spans),
        static_cast<std::int32_t>(m.panels_each), weights_.slab(other), other.at,
        static_cast<std::uint64_t>(second.beside ? second.matrix->panel_bytes : 0),
        static_cast<std::int32_t>(m.panels), from.x, from.stride, from.rows, from.share,
        scratch_.squares.get(), from.spread ? scratch_.squares.stride : 0,
        static_cast<std::int32_t>(shape_.width), static_cast<float>(shape_.norm_eps), into.y,
        p.column + first, into.stride, (into.columns > 0 ? into.columns : all) - first,
        weights_.vectors(), into.bias_at < 0 ? -1 : into.bias_at + first,
        into.second_bias_at < 0 ? -1 : into.second_bias_at + first, into.mode,
        static_cast<std::int32_t>(op.activate), into.scale, into.cap,
        into.gate_rows ? scratch_.gate.get() : scratch_.tokens.get(), std::int32_t{into.gate_rows},
        from.slots ? scratch_.expert.get() : scratch_.tokens.get(),
        static_cast<std::int32_t>(from.slots ? piece.first_panel / m.panels_each : 0),
        static_cast<std::int32_t>(from.slots ? piece.panels / m.panels_each : 0), scratch_.h.get(),
        scratch_.squares.get(), scratch_.squares.stride, into.next_norm_at,
        std::int32_t{into.as_records});
  }
}

/// out = norm(x), or out += scale * norm(x).
void OpenclExecutor::norm(const DeviceOp& op, cl_mem x, std::int32_t rows, cl_mem out, bool add) {
  const auto n = static_cast<std::int32_t>(shape_.width);
  const bool rms = op.norm_kind == plan::NormKind::kRms;
  if (op.next_norm_at >= 0) spread_for_ = op.next_norm_at;
  queue_.run(rms ? kernels_.norm_rms : kernels_.norm_layer, {rows, 1, kNormItems, 1}, x,
             std::int32_t{0}, scratch_.x.stride, weights_.vectors(), op.norm_at, op.norm_bias_at, n,
             n, static_cast<float>(shape_.norm_eps), out, std::int32_t{0}, scratch_.x.stride,
             std::int32_t{add}, op.scale, scratch_.h.get(), scratch_.squares.get(),
             scratch_.squares.stride, op.next_norm_at);
}

/// The rows that a product takes: the operation's norm of x, or x as it is.
OpenclExecutor::From OpenclExecutor::normed(const DeviceOp& op, const Rows& x, std::int32_t rows) {
  From from;
  from.stride = x.stride;
  from.rows = rows;
  from.spread = op.norm_inside;
  from.x = op.norm_at >= 0 || op.from_h ? scratch_.h.get() : x.get();
  if (op.norm_inside && spread_for_ == op.norm_at) return from;
  if (!op.norm_inside) {
    if (op.norm_at >= 0) norm(op, x.get(), rows, scratch_.h.get(), false);
    if (!ways_.records || (op.from_h && h_records_)) return from;
    as_records(from.x, x.stride, rows, shape_.width, scratch_.h.get());
    h_records_ = true;
    from.x = scratch_.h.get();
    return from;
  }
  queue_.run(kernels_.spread, {rows, 1, kNormItems, 1}, x.get(), x.stride, weights_.vectors(),
             op.norm_at, static_cast<std::int32_t>(shape_.width), scratch_.h.get(),
             scratch_.squares.get(), scratch_.squares.stride);
  return from;
}

/// out = rows of n values as products read them; out may be x.
void OpenclExecutor::as_records(cl_mem x, std::int32_t stride, std::int32_t rows, std::int64_t n,
                                cl_mem out) {
  queue_.run(kernels_.records, {rows, 1, kNormItems, 1}, x, stride, static_cast<std::int32_t>(n),
             out);
}

/// Whether an operation may leave its result as records: all of it is here, in whole panels.
bool OpenclExecutor::leaves_records(const DeviceOp& op) const {
  return ways_.records && op.columns == 0;
}

/// One norm over `heads` heads of each token, in place.
void OpenclExecutor::norm_heads(std::int32_t first_head, std::int32_t heads,
                                std::int32_t weight_at) {
  queue_.run(kernels_.norm_rms, {static_cast<std::int64_t>(tokens_.size()), 1, kNormItems, 1},
             scratch_.qkv.get(), first_head * head_pad_, scratch_.qkv.stride, weights_.vectors(),
             weight_at, std::int32_t{-1}, heads * head_pad_,
             heads * static_cast<std::int32_t>(shape_.head_dim),
             static_cast<float>(shape_.norm_eps), scratch_.qkv.get(), first_head * head_pad_,
             scratch_.qkv.stride, std::int32_t{0}, 1.0f, scratch_.h.get(), scratch_.squares.get(),
             scratch_.squares.stride, std::int32_t{-1});
}

/// `wanted`: else the heads are not rotated here.
OpenclExecutor::Turns OpenclExecutor::turns_of(const DeviceOp& op, bool wanted) const {
  Turns turns;
  turns.table = weights_.vectors();
  turns.neox = shape_.rope_style == plan::RopeStyle::kNeox ? 1 : 0;
  if (!wanted || op.rope < 0) return turns;
  turns.table = scratch_.turns[op.rope].get();
  turns.sin_at = static_cast<std::uint64_t>(limits_.context) * static_cast<std::uint64_t>(pairs_);
  if (query_turns_) turns.q_at = 2 * turns.sin_at;
  turns.pairs = pairs_;
  return turns;
}

/// Heads below `last_head`: bias, norm, rotation, storing, as the operation says.
void OpenclExecutor::finish_heads(const DeviceOp& op, std::int32_t last_head, bool keys_wait) {
  const bool second = op.kind == model::OpKind::kQkNorm;  // biases are in, the norm is done
  const bool later = keys_wait;                           // norm and rotation come with a kQkNorm
  const auto layer = static_cast<std::size_t>(op.place);
  const Turns turns = turns_of(op, !later);
  queue_.run(
      kernels_.finish_head, {last_head, static_cast<std::int64_t>(tokens_.size()), kPageTokens, 1},
      scratch_.qkv.get(), scratch_.qkv.stride, static_cast<std::int32_t>(shape_.head_dim),
      head_pad_, static_cast<std::int32_t>(shape_.heads),
      static_cast<std::int32_t>(shape_.kv_heads), scratch_.tokens.get(), scratch_.tables.get(),
      weights_.vectors(), second ? -1 : op.bias_at[0], second || later ? -1 : op.head_norm_at[0],
      second || later ? -1 : op.head_norm_at[1], static_cast<float>(shape_.norm_eps), turns.table,
      turns.sin_at, turns.q_at, turns.pairs, turns.neox, std::int32_t{keys_wait},
      keys_[layer].get(), values_[layer].get(), page_bytes_);
}

}  // namespace holdfast::opencl
