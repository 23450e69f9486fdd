#include "bench/serve_run/rates.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace holdfast::bench {
namespace {

constexpr Goal kWorseThanHalf{1.5, Better::kLower};  // p99 at 80 % over 50 %
constexpr Goal kTail{3, Better::kLower};             // p99 over p50

void add_share(Report& report, int percent, const Block& all) {
  const std::string name = "at" + std::to_string(percent);
  report.add(name + ".rate", all.rate(), "tokens/s");
  report.add(name + ".first_ms", summarize(all.first_ms), "ms");
  report.add(name + ".gap_ms", summarize(all.gap_ms), "ms");
  report.add(name + ".request_ms", summarize(all.request_ms), "ms");
}

void add_ratios(Report& report, int low, int high, const std::map<int, Block>& found) {
  const std::string over = "at" + std::to_string(high) + "_over_" + std::to_string(low);
  const std::string tail = "at" + std::to_string(high) + ".p99_over_p50";
  for (const auto& [what, values] :
       {std::pair{".gap", &Block::gap_ms}, std::pair{".request", &Block::request_ms}}) {
    const Summary more = summarize(found.at(high).*values);
    const Summary less = summarize(found.at(low).*values);
    if (high != low) report.add(over + what + ".p99", more.p99 / less.p99, "x", kWorseThanHalf);
    report.add(tail + what, more.p99 / more.p50, "x", kTail);
  }
}

}  // namespace

void run_rates(const Endpoint& server, const Workload& workload, const RatesOptions& options,
               Report& report) {
  const Block full = closed_block(server, workload, options.clients, options.rounds);
  if (!full.failure.empty()) return report.problem("capacity: " + full.failure);
  report.add("capacity.requests", full.requests_rate(), "requests/s");
  report.add("capacity.rate", full.rate(), "tokens/s");
  std::map<int, Block> found;
  for (int block = 0; block < options.blocks; ++block) {
    std::vector<int> order = options.percents;
    if (block % 2 == 1) std::reverse(order.begin(), order.end());
    for (const int percent : order) {
      const double per_second = full.requests_rate() * percent / 100;
      const Block one = open_block(server, workload, per_second, options.requests,
                                   static_cast<unsigned>(block + 1));
      if (!one.failure.empty()) {
        return report.problem(std::to_string(percent) + " %: " + one.failure);
      }
      std::fprintf(stderr, "%d %%: %.1f tokens/s, request p99 %.0f ms\n", percent, one.rate(),
                   summarize(one.request_ms).p99);
      found[percent].join(one);
    }
  }
  for (const auto& [percent, all] : found) add_share(report, percent, all);
  add_ratios(report, found.begin()->first, found.rbegin()->first, found);
}

}  // namespace holdfast::bench
