// Retention: which ended requests leave the database, and when.
#include <algorithm>

#include "control/core/machine.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kHourMs = 3'600'000;

}  // namespace

void Machine::on(const Sweep& event) {
  const bool crowded = event.used_bytes > config_.retention_max_bytes;
  std::int64_t retention_ms = crowded ? 0 : config_.retention_hours * kHourMs;
  if (retention_ms == 0 && !crowded) return;
  retention_ms = std::max(retention_ms, config_.retention_key_hours * kHourMs);
  for (const Sweep::Row& row : event.rows) {
    // A wall clock that was set back makes requests look younger: they stay longer, which does no
    // harm.
    if (row.finished_ms == 0 || now_.wall_ms - row.finished_ms < retention_ms) continue;
    if (!requests_.retire(row.seq)) continue;
    ++counters_.retired;
    out_->write(DeleteRequest{row.seq}, Durability::kNormal);
  }
}

}  // namespace holdfast::core
