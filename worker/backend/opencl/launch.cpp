// One kernel each: what the executor's rows, weights and numbers are as arguments (kernels/*.cl).

#include "worker/backend/opencl/executor.h"
#include "worker/backend/opencl/limits.h"

namespace holdfast::opencl {

/// x = (x * scale, if `add`) + rows of a matrix, by token or by position.
/// `first_row`: of the table, that the matrix here begins with.
void OpenclExecutor::look_up(const Product& from, std::int32_t first_row, bool by_position,
                             bool add, float scale) {
  const DeviceMatrix& m = from.matrix;
  const ProductKernels& kernels = kernels_.product[static_cast<std::size_t>(m.format)];
  for (const Piece& piece : m.pieces) {
    const auto first = first_row + static_cast<std::int32_t>(piece.first_panel * kLanes);
    queue_.run(kernels.embed, {static_cast<std::int64_t>(tokens_.size()), 1, kLanes, 1},
               weights_.slab(piece), piece.at, static_cast<std::uint64_t>(m.panel_bytes),
               static_cast<std::int32_t>(m.spans), first,
               first + static_cast<std::int32_t>(piece.panels * kLanes), scratch_.tokens.get(),
               std::int32_t{by_position}, scratch_.x.get(), scratch_.x.stride,
               static_cast<std::int32_t>(shape_.width), std::int32_t{add}, scale);
  }
}

void OpenclExecutor::product(const DeviceOp& op, const Product& p, const From& from,
                             const Into& into) {
  const DeviceMatrix& m = p.matrix;
  const ProductKernels& kernels = kernels_.product[static_cast<std::size_t>(m.format)];
  const bool wide = from.rows > 1 && !from.slots;
  const std::int32_t rows_each = wide ? kRowsWide : 1;
  const auto all = static_cast<std::int32_t>(m.panels_each * kLanes);
  for (const Piece& piece : m.pieces) {
    const bool whole = from.slots || m.panels_each < m.panels;  // pieces are experts, not columns
    const std::int64_t panels = whole ? m.panels_each : piece.panels;
    const auto first = whole ? 0 : static_cast<std::int32_t>(piece.first_panel * kLanes);
    const int items = station_->device().wide_lanes ? 1 : kLanes;
    const Grid grid = {panels, (from.rows + rows_each - 1) / rows_each, items, kSlices};
    queue_.run(
        wide ? kernels.wide : kernels.one, grid, weights_.slab(piece), piece.at,
        static_cast<std::uint64_t>(m.panel_bytes), static_cast<std::int32_t>(m.spans),
        static_cast<std::int32_t>(m.panels_each), from.x, from.stride, from.rows, from.share,
        into.y, p.column + first, into.stride, (into.columns > 0 ? into.columns : all) - first,
        weights_.vectors(), into.bias_at < 0 ? -1 : into.bias_at + first, into.mode,
        static_cast<std::int32_t>(op.activate), into.scale, into.cap,
        into.gate_rows ? scratch_.gate.get() : scratch_.tokens.get(), std::int32_t{into.gate_rows},
        from.slots ? scratch_.expert.get() : scratch_.tokens.get(),
        static_cast<std::int32_t>(from.slots ? piece.first_panel / m.panels_each : 0),
        static_cast<std::int32_t>(from.slots ? piece.panels / m.panels_each : 0));
  }
}

/// out = norm(x), or out += scale * norm(x).
void OpenclExecutor::norm(const DeviceOp& op, cl_mem x, std::int32_t rows, cl_mem out, bool add) {
  const auto n = static_cast<std::int32_t>(shape_.width);
  const bool rms = op.norm_kind == plan::NormKind::kRms;
  queue_.run(rms ? kernels_.norm_rms : kernels_.norm_layer, {rows, 1, kNormItems, 1}, x,
             std::int32_t{0}, scratch_.x.stride, weights_.vectors(), op.norm_at, op.norm_bias_at, n,
             n, static_cast<float>(shape_.norm_eps), out, std::int32_t{0}, scratch_.x.stride,
             std::int32_t{add}, op.scale);
}

/// The rows that a product takes: the operation's norm of x, or x as it is.
OpenclExecutor::From OpenclExecutor::normed(const DeviceOp& op, const Rows& x, std::int32_t rows) {
  From from;
  from.stride = x.stride;
  from.rows = rows;
  from.x = op.norm_at >= 0 || op.from_h ? scratch_.h.get() : x.get();
  if (op.norm_at >= 0) norm(op, x.get(), rows, scratch_.h.get(), false);
  return from;
}

/// One norm over `heads` heads of each token, in place.
void OpenclExecutor::norm_heads(std::int32_t first_head, std::int32_t heads,
                                std::int32_t weight_at) {
  queue_.run(kernels_.norm_rms, {static_cast<std::int64_t>(tokens_.size()), 1, kNormItems, 1},
             scratch_.qkv.get(), first_head * head_pad_, scratch_.qkv.stride, weights_.vectors(),
             weight_at, std::int32_t{-1}, heads * head_pad_,
             heads * static_cast<std::int32_t>(shape_.head_dim),
             static_cast<float>(shape_.norm_eps), scratch_.qkv.get(), first_head * head_pad_,
             scratch_.qkv.stride, std::int32_t{0}, 1.0f);
}

/// Heads below `last_head`: bias, norm, rotation, storing, as the operation says.
void OpenclExecutor::finish_heads(const DeviceOp& op, std::int32_t last_head, bool keys_wait) {
  const bool second = op.kind == model::OpKind::kQkNorm;  // biases are in, the norm is done
  const bool later = keys_wait;                           // norm and rotation come with a kQkNorm
  const auto layer = static_cast<std::size_t>(op.layer);
  const bool turns = op.rope >= 0 && !later;
  const Buffer& table = scratch_.turns[turns ? op.rope : 0];
  const bool neox = shape_.rope_style == plan::RopeStyle::kNeox;
  const auto sin_at =
      static_cast<std::uint64_t>(limits_.context) * static_cast<std::uint64_t>(pairs_);
  queue_.run(kernels_.finish_head,
             {last_head, static_cast<std::int64_t>(tokens_.size()), kPageTokens, 1},
             scratch_.qkv.get(), scratch_.qkv.stride, static_cast<std::int32_t>(shape_.head_dim),
             head_pad_, static_cast<std::int32_t>(shape_.heads),
             static_cast<std::int32_t>(shape_.kv_heads), scratch_.tokens.get(),
             scratch_.tables.get(), weights_.vectors(), second ? -1 : op.bias_at[0],
             second || later ? -1 : op.head_norm_at[0], second || later ? -1 : op.head_norm_at[1],
             static_cast<float>(shape_.norm_eps), turns ? table.get() : weights_.vectors(),
             turns ? sin_at : std::uint64_t{0}, turns ? pairs_ : 0, std::int32_t{neox},
             std::int32_t{keys_wait}, keys_[layer].get(), values_[layer].get(), page_bytes_);
}

}  // namespace holdfast::opencl
