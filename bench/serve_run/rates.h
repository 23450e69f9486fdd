#pragma once
// How steady a server is: what its clients see at shares of its capacity.

#include <string>
#include <vector>

#include "bench/serve_run/block.h"

namespace holdfast::bench {

struct RatesOptions {
  std::vector<int> percents;  // shares of the capacity
  int clients = 16;           // at once, to find the capacity
  int rounds = 3;             // of each client
  int requests = 64;          // of each block
  int blocks = 2;             // of each share, in turn
};

/// Finds the capacity (requests a second of so many clients at once), then sends requests at each
/// share of it, shares in turn there and back. Figures: percentiles of a gap and of a whole request
/// at each share; with two shares, p99 at the larger over p99 at the smaller; p99 / p50 at the
/// largest. A request that fails is a problem of the report.
void run_rates(const Endpoint& server, const Workload& workload, const RatesOptions& options,
               Report& report);

}  // namespace holdfast::bench
