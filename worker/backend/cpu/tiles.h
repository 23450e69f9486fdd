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

/// f(p0, p1) over pieces of at most `per` panels. A wide batch draws pieces as it goes, so that a
/// thread that was held up does less; a small one keeps to its own, whose pages it touched first.
/// Which thread computes a panel changes no bits.
template <class F>
void CpuExecutor::for_tiles(std::int64_t panels, std::int64_t per, const PackedOp& op, int worker,
                            F f) {
  if (static_cast<std::int64_t>(tokens_.size()) > kPrivateRows) {
    std::atomic<std::int64_t>& ticket = tickets_[static_cast<std::size_t>(&op - ops_.data())];
    for (;;) {
      const std::int64_t p = ticket.fetch_add(per, std::memory_order_relaxed);
      if (p >= panels) return;
      f(p, std::min(p + per, panels));
    }
  }
  const std::int64_t unit = std::min<std::int64_t>(per, 2);  // whole blocks of 32 (hand_on)
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

}  // namespace holdfast::cpu
