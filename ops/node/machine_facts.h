#pragma once
// Facts of a node's machine and of its link to the daemon, measured when it joins. The planner
// (control/core/planner.h) compares nodes by them.

#include <cstdint>

#include "shared/client/client.h"

namespace holdfast::cli {

/// The link to the daemon. 0: not measured.
struct LinkFacts {
  std::int64_t round_trip_us = 0;  // of a short message
  std::int64_t bytes_s = 0;        // from the daemon
};

/// Reads memory with `threads` threads for about 50 ms and returns bytes a second. Takes 128 MiB
/// for that time.
std::int64_t measure_memory_rate(int threads);

/// Asks the daemon for content of no meaning (verb node.probe) and takes the shortest times. Blocks
/// for seconds on a slow link; what does not come within the client's timeout is not measured.
LinkFacts measure_link(client::Client& daemon);

}  // namespace holdfast::cli
