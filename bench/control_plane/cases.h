#pragma once
// The measurements of bench/control, each on a house of its own.

#include <functional>
#include <string>
#include <vector>

#include "bench/lib/house.h"
#include "bench/lib/load.h"
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
Result<void> bench_burst(const Options& options, Report& report);

const std::vector<Case>& all_cases();

/// What the engine of this run can be asked for: the demo model has a context of 512 tokens.
struct EngineLimits {
  std::int64_t longest = 4000;     // tokens of a request
  int context = 4096;              // with its prompt of 16
  std::vector<std::string> flags;  // of its workers
};
EngineLimits limits_of(const Options& options);

}  // namespace holdfast::bench
