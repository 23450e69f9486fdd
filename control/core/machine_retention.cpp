// Which ended requests leave the database, and when.
#include <algorithm>

#include "control/core/machine.h"
#include "control/core/planted.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kHourMs = 3'600'000;

}  // namespace

void Machine::on(const Sweep& event) {
  const bool crowded = event.used_bytes > config_.retention_max_bytes;
  std::int64_t keep_ms = crowded ? 0 : config_.retention_hours * kHourMs;
  if (keep_ms == 0 && !crowded) return;
  if (!planted(Bug::kRetireEarly)) {
    keep_ms = std::max(keep_ms, config_.retention_key_hours * kHourMs);
  }
  for (const Sweep::Row& row : event.rows) {
    // A wall clock that was set back makes them look younger: then they stay longer, no harm.
    const bool live = row.finished_ms == 0 && !planted(Bug::kRetireLive);
    if (live || now_.wall_ms - row.finished_ms < keep_ms) continue;
    if (!requests_.retire(row.seq) && !planted(Bug::kRetireLive)) continue;
    ++counters_.retired;
    out_->write(DeleteRequest{row.seq}, Durability::kNormal);
  }
}

}  // namespace holdfast::core
