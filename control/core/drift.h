#pragma once
// Drift: whether a load took another amount of memory than was reserved for it.

#include "control/core/config.h"
#include "control/core/workers.h"

namespace holdfast::core {

/// Measured memory over the reservation, in percent: 0 = as reserved or not measured, negative =
/// less.
double drift_percent(const Load& load);
/// Returns true if the drift is more than models.drift_percent, and more than a process moves by
/// itself.
bool memory_drifts(const Load& load, const Config& config);

}  // namespace holdfast::core
