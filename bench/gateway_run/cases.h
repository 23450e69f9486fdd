#pragma once
// The measurements of bench/gateway, each on a cluster of its own.

#include "bench/lib/options.h"
#include "bench/lib/report.h"

namespace holdfast::bench {

Result<void> bench_streams(const Options& options, Report& report);
Result<void> bench_cost(const Options& options, Report& report);

}  // namespace holdfast::bench
