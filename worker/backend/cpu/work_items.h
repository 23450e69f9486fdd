#pragma once
// Distribution of an operation's work items to the threads. For the sources of the executor alone.

#include <algorithm>

#include "worker/backend/cpu/executor.h"

namespace holdfast::cpu {

/// Panels in a work item: as many as are unpacked at once, fewer where the threads would end
/// unevenly.
inline std::int64_t even_item_panels(std::int64_t panels, int threads) {
  std::int64_t per = kTilePanels;
  while (per > 2 && panels / per < 6 * threads) per /= 2;
  return per;
}

/// Divides the rows of a product of the whole batch. Each group reads and unpacks all of the
/// weights: that pays from kRowsLeast rows a group on, and loses with 64 (docs/kernels.md).
inline RowGroups CpuExecutor::row_groups(const Operand& x) const {
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
inline std::int64_t CpuExecutor::panels_at_once(const PackedMatrix& w, const Operand& x,
                                                const RowGroups& groups) const {
  constexpr std::int64_t kNearBytes = 1 << 20;
  const std::int64_t most =
      (x.rows > x.decode_heavy_rows ? prefill_kernels_ : kernels_).item_panels;
  const bool near = groups.count == 1 && groups.rows * x.q_stride <= kNearBytes;
  if (most <= kTilePanels || x.q == nullptr || near) {
    return even_item_panels(w.panels, groups.threads);
  }
  const std::int64_t rounds = (w.panels + most * groups.threads - 1) / (most * groups.threads);
  const std::int64_t items = rounds * groups.threads;
  return round_up((w.panels + items - 1) / items, 2);
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

/// Calls f(p0, p1) for work items of at most `per` panels. Items begin at multiples of `unit` (of
/// `per` if that is smaller); 2 panels are whole blocks of 32 (run_epilogue). In a wide batch
/// threads take items as they go, so that a thread that was held up does less; in a small one each
/// has a fixed share, whose pages it touched first. The choice of the thread changes no bits.
template <class F>
void CpuExecutor::for_items(std::int64_t panels, std::int64_t per, const PackedOp& op, int worker,
                            F f, std::int64_t unit) {
  if (static_cast<std::int64_t>(tokens_.size()) > kPrivateRows) {
    return take_items(ticket(op), panels, per, f);
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
void CpuExecutor::for_groups(const RowGroups& groups, std::int64_t panels, std::int64_t per,
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
    take_items(ticket(op, group), panels, per,
               [&](std::int64_t p0, std::int64_t p1) { f(rows, first, p0, p1); });
  }
}

/// The start of the work item that a thread probably gets after the one from p0, if `threads`
/// threads share the items.
inline std::int64_t CpuExecutor::likely_next(std::int64_t p0, std::int64_t per, int threads) const {
  const bool draws = static_cast<std::int64_t>(tokens_.size()) > kPrivateRows;
  return p0 + per * (draws ? threads : 1);
}

/// Notes panels [p0, p0 + per) of w, as far as there are, as the thread's probable next ones.
inline void expect(MatmulArgs& args, const PackedMatrix& w, std::int64_t p0, std::int64_t per) {
  args.next = p0 < w.panels ? &w : nullptr;
  args.next_p0 = p0;
  args.next_p1 = std::min(p0 + per, w.panels);
}

/// Multiplies op.matrix[0] with the rows of x, item by item: finish(y, i, p0, n) gets the n outputs
/// of row i from panel p0 on.
template <class F>
void CpuExecutor::run_product_items(const PackedOp& op, const float* x, std::int64_t stride,
                                    int worker, F finish) {
  const Operand all = token_operand(op, x, stride, worker);
  const RowGroups groups = row_groups(all);
  const std::int64_t per = panels_at_once(op.matrix[0], all, groups);
  const auto run_item = [&](const Operand& rows, std::int64_t first, std::int64_t p0,
                            std::int64_t p1) {
    MatmulArgs args = product(op.matrix[0], rows, worker);
    args.y = workers_[static_cast<std::size_t>(worker)].tile;
    args.y_stride = tile_cols_;
    args.p0 = p0;
    args.p1 = p1;
    expect(args, op.matrix[0], likely_next(p0, per, groups.threads), per);
    multiply(args, rows.decode_heavy_rows);
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      finish(args.y + i * tile_cols_, first + i, p0, (p1 - p0) * kLanes);
    }
  };
  for_groups(groups, op.matrix[0].panels, per, op, all, worker, run_item);
}

/// Computes f item by item: finish(gate, up, i, p0, n) combines the n outputs of gate and of up for
/// row i, from panel p0 on, in place of gate's; up is null where the model has none.
template <class F>
void CpuExecutor::run_gate_up_items(const PackedOp& op, int worker, F finish) {
  const Operand all = token_operand(op, x_, x_stride_, worker);
  const RowGroups groups = row_groups(all);
  float* tile = workers_[static_cast<std::size_t>(worker)].tile;
  const bool gated = op.matrix[1].panels > 0;
  const std::int64_t per = panels_at_once(op.matrix[0], all, groups);
  const auto run_item = [&](const Operand& rows, std::int64_t first, std::int64_t p0,
                            std::int64_t p1) {
    const FloatRows f = rows_of_f(op, first, p0, worker);
    MatmulArgs args = product(op.matrix[0], rows, worker);
    args.p0 = p0;
    args.p1 = p1;
    args.y = f.at;
    args.y_stride = f.stride;
    const std::int64_t next = likely_next(p0, per, groups.threads);
    expect(args, op.matrix[gated ? 1 : 0], gated ? p0 : next, per);
    multiply(args, rows.decode_heavy_rows);
    if (gated) {
      args.w = &op.matrix[1];
      args.y = tile;
      args.y_stride = tile_cols_;
      expect(args, op.matrix[0], next, per);
      multiply(args, rows.decode_heavy_rows);
    }
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      float* gate = f.at + i * f.stride;
      finish(gate, gated ? tile + i * tile_cols_ : nullptr, first + i, p0, (p1 - p0) * kLanes);
      run_epilogue(op, gate, first + i, p0, p1);
    }
    if (p1 == op.matrix[0].panels) end_rows_of_f(op, first, rows.rows);
  };
  for_groups(groups, op.matrix[0].panels, per, op, all, worker, run_item);
}

}  // namespace holdfast::cpu
