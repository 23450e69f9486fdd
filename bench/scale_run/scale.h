#pragma once
// One control plane with a thousand nodes: what its state machine costs on one core.

#include "bench/lib/report.h"
#include "bench/scale_run/cluster.h"

namespace holdfast::bench {

/// Builds the cluster, lets `streams` sequences run, then sends arrivals for `seconds` of the
/// machine's clock and reports times, the share of a core and memory.
void run_scale(const ScaleOptions& options, Report& report);

}  // namespace holdfast::bench
