#include "control/core/drift.h"

#include <cmath>

namespace holdfast::core {
namespace {

// The process itself moves by some MiB; of a tiny model that is a large share.
constexpr std::int64_t kProcessNoise = 8 << 20;

}  // namespace

double drift_percent(const Load& load) {
  const std::int64_t taken = load.memory.taken;
  if (taken <= 0 || load.row.bytes <= 0) return 0;
  return 100 * (static_cast<double>(taken) / static_cast<double>(load.row.bytes) - 1);
}

bool memory_drifts(const Load& load, const Config& config) {
  const std::int64_t taken = load.memory.taken;
  if (taken <= 0 || load.row.bytes <= 0) return false;
  if (std::abs(taken - load.row.bytes) <= kProcessNoise) return false;
  return std::abs(drift_percent(load)) > static_cast<double>(config.models_drift_percent);
}

}  // namespace holdfast::core
