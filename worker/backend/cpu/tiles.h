#pragma once
// How the pieces of one operation are handed to the threads. For the sources of the executor alone.

#include <algorithm>

#include "worker/backend/cpu/executor.h"

namespace holdfast::cpu {

/// Panels in a piece of work: as many as unpack at once, fewer where the threads would end
/// unevenly.
inline std::int64_t piece_panels(std::int64_t panels, int threads) {
  std::int64_t per = kTilePanels;
  while (per > 2 && panels / per < 6 * threads) per /= 2;
  return per;
}

/// f(p0, p1) over pieces of at most `per` panels, which begin at multiples of `unit`, of which
/// `per` is one or less than it; 2 are whole blocks of 32 (hand_on). A wide batch draws pieces as
/// it goes, so that a thread that was held up does less; a small one keeps to its own, whose pages
/// it touched first. Which thread computes a panel changes no bits.
template <class F>
void CpuExecutor::for_tiles(std::int64_t panels, std::int64_t per, const PackedOp& op, int worker,
                            F f, std::int64_t unit) {
  if (static_cast<std::int64_t>(tokens_.size()) > kPrivateRows) {
    std::atomic<std::int64_t>& ticket = tickets_[static_cast<std::size_t>(&op - ops_.data())];
    for (;;) {
      const std::int64_t p = ticket.fetch_add(per, std::memory_order_relaxed);
      if (p >= panels) return;
      f(p, std::min(p + per, panels));
    }
  }
  unit = std::min(per, unit);
  const Share share = share_of((panels + unit - 1) / unit, worker, pool_.size());
  const std::int64_t last = std::min(share.last * unit, panels);
  for (std::int64_t p = share.first * unit; p < last; p += per) f(p, std::min(p + per, last));
}

/// Where the piece begins that a thread is probably given behind the one from p0.
inline std::int64_t CpuExecutor::likely_next(std::int64_t p0, std::int64_t per) const {
  const bool draws = static_cast<std::int64_t>(tokens_.size()) > kPrivateRows;
  return p0 + per * (draws ? pool_.size() : 1);
}

/// Panels [p0, p0 + per) of w, as far as there are, are what the thread probably needs next.
inline void expect(MatmulArgs& args, const PackedMatrix& w, std::int64_t p0, std::int64_t per) {
  args.next = p0 < w.panels ? &w : nullptr;
  args.next_p0 = p0;
  args.next_p1 = std::min(p0 + per, w.panels);
}

/// op.matrix[0] times the rows of x, piece by piece: finish(y, i, p0, n) gets the n outputs of row
/// i from panel p0 on.
template <class F>
void CpuExecutor::product_pieces(const PackedOp& op, const float* x, std::int64_t stride,
                                 int worker, F finish) {
  const Operand operand = token_operand(op, x, stride, worker);
  MatmulArgs args = product(op.matrix[0], operand, worker);
  args.y = workers_[static_cast<std::size_t>(worker)].tile;
  args.y_stride = tile_cols_;
  const std::int64_t per = piece_panels(op.matrix[0].panels, pool_.size());
  for_tiles(op.matrix[0].panels, per, op, worker, [&](std::int64_t p0, std::int64_t p1) {
    args.p0 = p0;
    args.p1 = p1;
    expect(args, op.matrix[0], likely_next(p0, per), per);
    multiply(args, operand.writing);
    for (std::int64_t i = 0; i < operand.rows; ++i) {
      finish(args.y + i * tile_cols_, i, p0, (p1 - p0) * kLanes);
    }
  });
}

/// f, piece by piece: finish(gate, up, i, p0, n) makes n of the numbers of row i, from panel p0 on,
/// of those of gate and of up, in the place of the first; up is null where the model has none.
template <class F>
void CpuExecutor::gate_up_pieces(const PackedOp& op, int worker, F finish) {
  const Operand h = token_operand(op, x_, x_stride_, worker);
  float* tile = workers_[static_cast<std::size_t>(worker)].tile;
  const bool gated = op.matrix[1].panels > 0;
  MatmulArgs args = product(op.matrix[0], h, worker);
  const std::int64_t per = piece_panels(op.matrix[0].panels, pool_.size());
  for_tiles(op.matrix[0].panels, per, op, worker, [&](std::int64_t p0, std::int64_t p1) {
    const FloatRows f = rows_of_f(op, p0, worker);
    args.p0 = p0;
    args.p1 = p1;
    args.w = &op.matrix[0];
    args.y = f.at;
    args.y_stride = f.stride;
    expect(args, op.matrix[gated ? 1 : 0], gated ? p0 : likely_next(p0, per), per);
    multiply(args, h.writing);
    if (gated) {
      args.w = &op.matrix[1];
      args.y = tile;
      args.y_stride = tile_cols_;
      expect(args, op.matrix[0], likely_next(p0, per), per);
      multiply(args, h.writing);
    }
    for (std::int64_t i = 0; i < h.rows; ++i) {
      float* gate = f.at + i * f.stride;
      finish(gate, gated ? tile + i * tile_cols_ : nullptr, i, p0, (p1 - p0) * kLanes);
      hand_on(op, gate, i, p0, p1);
    }
    if (p1 == op.matrix[0].panels) end_rows_of_f(op, h.rows);
  });
}

}  // namespace holdfast::cpu
