#pragma once
// The measurements of bench/control, each on a cluster of its own.

#include <functional>
#include <string>
#include <vector>

#include "bench/lib/load.h"
#include "bench/lib/local_cluster.h"
#include "bench/lib/options.h"
#include "bench/lib/report.h"

namespace holdfast::bench {

Result<void> bench_disk(const Options& options, Report& report);
Result<void> bench_admission(const Options& options, Report& report);
Result<void> bench_tokens(const Options& options, Report& report);
Result<void> bench_restart(const Options& options, Report& report);
Result<void> bench_failures(const Options& options, Report& report);
Result<void> bench_suspicion(const Options& options, Report& report);
Result<void> bench_cancel(const Options& options, Report& report);
Result<void> bench_standby(const Options& options, Report& report);
Result<void> bench_burst(const Options& options, Report& report);

const std::vector<Case>& all_cases();

/// Limits of this run's engine: the demo model has a context of 512 tokens.
struct EngineLimits {
  std::int64_t longest = 4000;     // tokens of a request
  int context = 4096;              // with the prompt of 16 tokens
  std::vector<std::string> flags;  // of the workers
};
EngineLimits limits_of(const Options& options);

}  // namespace holdfast::bench
