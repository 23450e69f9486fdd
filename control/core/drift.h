#pragma once
// Whether a load took another amount of memory than was reserved for it.

#include "control/core/config.h"
#include "control/core/workers.h"

namespace holdfast::core {

/// Measured memory over the reservation, in percent: 0 = as reserved, negative = less. 0 if it was
/// not measured.
double drift_percent(const Load& load);
/// True if that is more than models.drift_percent, and more than a process moves by itself.
bool memory_drifts(const Load& load, const Config& config);

}  // namespace holdfast::core
