#pragma once
// How a server keeps its pace: what its clients see at shares of what it can do.

#include <string>
#include <vector>

#include "bench/serve_run/block.h"

namespace holdfast::bench {

struct RatesWish {
  std::vector<int> percents;  // of the capacity
  int clients = 16;           // at once, to find it
  int rounds = 3;             // of each of them
  int requests = 64;          // of each block
  int blocks = 2;             // of each share, in turn
};

/// Finds the capacity (requests a second of so many clients at once), then asks at each share of
/// it, shares in turn there and back. Figures: percentiles of a gap and of a whole request at each
/// share; with two shares, what p99 is at the larger over the smaller; p99 / p50 at the largest.
/// A request that fails is a problem of the report.
void run_rates(const Endpoint& server, const Asked& asked, const RatesWish& wish, Report& report);

}  // namespace holdfast::bench
