#pragma once
// The measurements of bench/neighbours, each on a server of its own with one engine.

#include <string>

#include "bench/lib/options.h"
#include "bench/lib/report.h"
#include "bench/neighbours_run/served.h"

namespace holdfast::bench {

/// Tenant b's wait for its first token next to one and to very many requests of tenant a.
Result<void> bench_fairness(const Options& options, const std::string& engine, Report& report);
/// b's waits in the stages before the daemon: uploads, helpers, /tokenize.
Result<void> bench_fronts(const Options& options, const std::string& engine, Report& report);
/// An owner's latency and the gateway's memory, alone and next to connections without a key.
Result<void> bench_strangers(const Options& options, const std::string& engine, Report& report);
/// A neighbour's latency and the gateway's memory next to bodies that are made to grow.
Result<void> bench_poison(const Options& options, const std::string& engine, Report& report);

/// Starts `holdfast serve` for a case. The fake engine has 16 slots and a step of `step_us`.
Result<std::unique_ptr<Served>> serve(const Options& options, const std::string& name,
                                      const std::string& engine, int step_us);
/// Adds name.p50, .p95, with `to_p99` .p99, and .max.
void add_waits(Report& report, const std::string& name, const std::vector<double>& ms,
               bool to_p99 = false);
double ratio(double over, double under);

}  // namespace holdfast::bench
