#pragma once
// Products of a batch's rows with packed weights, and how their work items are shared out to the
// threads. For the operations of the executor alone.

#include <algorithm>
#include <initializer_list>

#include "worker/backend/cpu/operation.h"

namespace holdfast::cpu {

/// Rows that a product takes: floats, and the same encoded in an activation format.
struct Operand {
  const float* x = nullptr;  // [rows][x_stride]
  std::int64_t x_stride = 0;
  const std::uint8_t* q = nullptr;  // [rows], q_stride bytes apart; null: no format
  std::int64_t q_stride = 0;
  std::int64_t rows = 0;
  std::int64_t decode_heavy_rows = 0;  // the first rows; the others are of prefill-heavy segments
  bool int8 = false;                   // RowEncoding::int8 of the product's operation
};

/// Rows [first, first + rows) of an operand of the whole batch.
inline Operand rows_of(const Operand& all, std::int64_t first, std::int64_t rows) {
  Operand some = all;
  some.x += first * all.x_stride;
  if (all.q != nullptr) some.q += first * all.q_stride;
  some.rows = rows;
  some.decode_heavy_rows = std::clamp<std::int64_t>(all.decode_heavy_rows - first, 0, rows);
  return some;
}

/// The division of a wide batch into groups of rows. The threads of a group multiply only its rows
/// while these have work left, because a row that a thread wrote is in that thread's cache alone.
/// The last group may have fewer rows.
struct RowGroups {
  std::int64_t count = 1;
  std::int64_t rows = 0;  // of a group
  int threads = 1;        // of a group
};

/// Panels in a work item: as many as are unpacked at once, fewer where the threads would end
/// unevenly.
inline std::int64_t even_item_panels(std::int64_t panels, int threads) {
  std::int64_t per = kTilePanels;
  while (per > 2 && panels / per < 6 * threads) per /= 2;
  return per;
}

/// Calls f(p0, p1) for the work items that this thread takes, until none is left.
template <class F>
void take_items(std::atomic<std::int64_t>& ticket, std::int64_t panels, std::int64_t per, F f) {
  for (;;) {
    const std::int64_t p = ticket.fetch_add(per, std::memory_order_relaxed);
    if (p >= panels) return;
    f(p, std::min(p + per, panels));
  }
}

/// Notes panels [p0, p0 + per) of w, as far as there are, as the thread's probable next ones.
inline void expect(MatmulArgs& args, const PackedMatrix& w, std::int64_t p0, std::int64_t per) {
  args.next = p0 < w.panels ? &w : nullptr;
  args.next_p0 = p0;
  args.next_p1 = std::min(p0 + per, w.panels);
}

/// The base of operations that multiply.
class Products : public Operation {
 public:
  using Operation::Operation;

 protected:
  /// Returns the rows of a product: the operation's norm of x, or x itself, also encoded in the
  /// format that its weights take. In a small batch each thread makes its own copy, which is
  /// cheaper than a barrier.
  Operand operand(const PackedOp& op, const FloatRows& x, std::int64_t rows,
                  std::int64_t decode_heavy_rows, int worker);
  /// operand() for all tokens of the batch.
  Operand token_operand(const PackedOp& op, const FloatRows& x, int worker);
  /// Returns the stride in bytes of rows of `floats` floats in an activation format: whole cache
  /// lines, since tiles are loaded by lines, no more of them than the row's k takes, and an odd
  /// number, so that rows do not share cache sets. The extra block of each row (plan::ScratchPlan)
  /// is memory enough for that.
  std::int64_t encoded_stride(const ActivationFormats& formats, std::int64_t floats) const;
  std::int64_t encoded_stride(const PackedOp& op) const {
    return encoded_stride(op.encoding.formats, op.encoding.floats);
  }
  static void encode_row(const PackedOp& op, bool prefill_heavy, const float* x, std::uint8_t* q);

  MatmulArgs product(const PackedMatrix& w, const Operand& x, int worker) const;
  /// Multiplies the first `decode_heavy_rows` rows with the family's own kernels, the others with
  /// the prefill-heavy ones.
  void multiply(const MatmulArgs& args, std::int64_t decode_heavy_rows) const;
  /// Adds the bias from panel `p0` on to n columns of each row; null: there is no bias.
  void add_bias(const float* bias, std::int64_t p0, const FloatRows& to, std::int64_t rows,
                std::int64_t n) const;
  /// Computes all products of an operation with the same rows, each into its own destination.
  void products_into(const PackedOp& op, const Operand& x, std::initializer_list<FloatRows> to,
                     int worker);

  template <class F>
  void for_items(std::int64_t panels, std::int64_t per, const PackedOp& op, int worker, F f,
                 std::int64_t unit = 2);
  template <class F>
  void for_groups(const RowGroups& groups, std::int64_t panels, std::int64_t per,
                  const PackedOp& op, const Operand& x, int worker, F f);
  template <class F>
  void run_product_items(const PackedOp& op, const FloatRows& x, int worker, F finish);
  RowGroups row_groups(const Operand& x) const;
  std::int64_t panels_at_once(const PackedMatrix& w, const Operand& x,
                              const RowGroups& groups) const;
  std::int64_t likely_next(std::int64_t p0, std::int64_t per, int threads) const;

 private:
  void form_rows(const PackedOp& op, const FloatRows& x, const FloatRows& out, const Share& share,
                 std::int64_t decode_heavy_rows, std::uint8_t* q) const;
  void products_of_panels(const PackedOp& op, std::initializer_list<FloatRows> to, std::int64_t p0,
                          std::int64_t p1, std::int64_t decode_heavy_rows, MatmulArgs args) const;
};

/// Divides the rows of a product of the whole batch. Each group reads and unpacks all of the
/// weights: that pays from kRowsLeast rows a group on, and loses with 64 (docs/inside/kernels.md).
inline RowGroups Products::row_groups(const Operand& x) const {
  constexpr std::int64_t kRowsLeast = 160;
  const int threads = pool_.size();
  const std::int64_t count = std::min({x.rows / kRowsLeast, std::int64_t{threads}, kRowGroupsMost});
  if (count < 2) return {1, x.rows, threads};
  return {count, round_up((x.rows + count - 1) / count, 2 * kLanes),
          static_cast<int>((threads + count - 1) / count)};
}

/// Panels in a work item of such a product. Rows from beyond the second-level cache are read once
/// for each work item, and the first weights of an item are unpacked while nothing is multiplied:
/// where the family wants that, items are larger, few, and of one size.
inline std::int64_t Products::panels_at_once(const PackedMatrix& w, const Operand& x,
                                             const RowGroups& groups) const {
  constexpr std::int64_t kNearBytes = 1 << 20;
  const std::int64_t most =
      (x.rows > x.decode_heavy_rows ? context_.prefill_kernels : kernels_).item_panels;
  const bool near = groups.count == 1 && groups.rows * x.q_stride <= kNearBytes;
  if (most <= kTilePanels || x.q == nullptr || near) {
    return even_item_panels(w.panels, groups.threads);
  }
  const std::int64_t rounds = (w.panels + most * groups.threads - 1) / (most * groups.threads);
  const std::int64_t items = rounds * groups.threads;
  return round_up((w.panels + items - 1) / items, 2);
}

/// Calls f(p0, p1) for work items of at most `per` panels. Items begin at multiples of `unit` (of
/// `per` if that is smaller); 2 panels are whole blocks of 32 (FeedForward::run_epilogue). In a
/// wide batch threads take items as they go, so that a thread that was held up does less; in a
/// small one each has a fixed share, whose pages it touched first. The choice of the thread changes
/// no bits.
template <class F>
void Products::for_items(std::int64_t panels, std::int64_t per, const PackedOp& op, int worker, F f,
                         std::int64_t unit) {
  if (batch_.rows() > kPrivateRows) {
    return take_items(context_.tickets.of(op), panels, per, f);
  }
  unit = std::min(per, unit);
  const Share share = share_of((panels + unit - 1) / unit, worker, pool_.size());
  const std::int64_t last = std::min(share.last * unit, panels);
  for (std::int64_t p = share.first * unit; p < last; p += per) f(p, std::min(p + per, last));
}

/// Calls f(rows, first, p0, p1) for work items of at most `per` panels by groups of rows of x,
/// which are the batch's from `first` on. A thread goes on with other groups when its own has no
/// work left.
template <class F>
void Products::for_groups(const RowGroups& groups, std::int64_t panels, std::int64_t per,
                          const PackedOp& op, const Operand& x, int worker, F f) {
  if (groups.count == 1) {
    return for_items(panels, per, op, worker,
                     [&](std::int64_t p0, std::int64_t p1) { f(x, std::int64_t{0}, p0, p1); });
  }
  for (std::int64_t i = 0; i < groups.count; ++i) {
    const std::int64_t group = (worker / groups.threads + i) % groups.count;
    const std::int64_t first = group * groups.rows;
    if (first >= x.rows) continue;
    const Operand rows = rows_of(x, first, std::min(groups.rows, x.rows - first));
    take_items(context_.tickets.of(op, group), panels, per,
               [&](std::int64_t p0, std::int64_t p1) { f(rows, first, p0, p1); });
  }
}

/// The start of the work item that a thread probably gets after the one from p0, if `threads`
/// threads share the items.
inline std::int64_t Products::likely_next(std::int64_t p0, std::int64_t per, int threads) const {
  const bool draws = batch_.rows() > kPrivateRows;
  return p0 + per * (draws ? threads : 1);
}

/// Multiplies op.matrix[0] with the rows of x, item by item: finish(y, i, p0, n) gets the n outputs
/// of row i from panel p0 on.
template <class F>
void Products::run_product_items(const PackedOp& op, const FloatRows& x, int worker, F finish) {
  const Operand all = token_operand(op, x, worker);
  const RowGroups groups = row_groups(all);
  const std::int64_t per = panels_at_once(op.matrix[0], all, groups);
  const FloatRows tile{scratch_of(worker).tile, buffers_.tile_cols};
  const auto run_item = [&](const Operand& rows, std::int64_t first, std::int64_t p0,
                            std::int64_t p1) {
    MatmulArgs args = product(op.matrix[0], rows, worker);
    args.y = tile.at;
    args.y_stride = tile.stride;
    args.p0 = p0;
    args.p1 = p1;
    expect(args, op.matrix[0], likely_next(p0, per, groups.threads), per);
    multiply(args, rows.decode_heavy_rows);
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      finish(tile.row(i), first + i, p0, (p1 - p0) * kLanes);
    }
  };
  for_groups(groups, op.matrix[0].panels, per, op, all, worker, run_item);
}

}  // namespace holdfast::cpu
