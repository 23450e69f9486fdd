#pragma once
// Clients of one server, all together for a while: a fixed number of them at once, or requests at a
// fixed rate whether or not the earlier ones have ended.

#include <string>
#include <vector>

#include "bench/lib/report.h"
#include "bench/serve_run/endpoint.h"

namespace holdfast::bench {

/// The requests. Prompts are random ids below `vocab`, so that no server has seen them before.
struct Workload {
  std::string prompt = "256";  // tokens, or "mixed": 64, 256 and 1,024 in turn
  std::int64_t max_tokens = 128;
  int vocab = 32'000;
};

/// The results of the clients.
struct Block {
  std::vector<double> first_ms, gap_ms, request_ms;
  std::int64_t tokens = 0, prompt_tokens = 0;
  double seconds = 0;
  std::string failure;  // one of the failures
  double rate() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  double requests_rate() const {
    return seconds > 0 ? static_cast<double>(request_ms.size()) / seconds : 0;
  }
  void join(const Block& more);
};

/// Runs `clients` at once, each with `rounds` requests one after the other.
Block closed_block(const Endpoint& to, const Workload& workload, int clients, int rounds);
/// Sends `requests` at random times, `per_second` on average (a Poisson process; a seed always
/// gives the same times). A request's times count from the moment when it was due.
Block open_block(const Endpoint& to, const Workload& workload, double per_second, int requests,
                 unsigned seed);

/// Adds .rate, .prompt_rate, .first_ms and .gap_ms of all blocks; rates have a sample a block.
void add_figures(Report& report, const std::string& name, const std::vector<Block>& blocks);

}  // namespace holdfast::bench
