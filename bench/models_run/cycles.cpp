#include <nlohmann/json.hpp>

#include "bench/models_run/cases.h"

namespace holdfast::bench {
namespace {

constexpr int kTokens = 8;
constexpr int kCompared = 20;  // loads whose first request is compared with later ones
constexpr int kSteady = 9;     // requests after the first one of such a load

struct Cycles {
  std::vector<double> load_ms, first_ms, steady_ms;
  std::vector<std::pair<double, double>> rss;  // cycle, bytes after the unload
  std::int64_t failures = 0;
};

Result<void> one_cycle(LocalCluster& cluster, client::Client& client, int cycle, Cycles& out) {
  const std::int64_t begin = now_us();
  HOLDFAST_CHECKED(operate(cluster, "models.load", "bench"));
  HOLDFAST_CHECKED(wait_state(cluster, "bench", "ready", 600'000));
  out.load_ms.push_back(static_cast<double>(now_us() - begin) / 1000);
  for (int i = 0; i <= (cycle < kCompared ? kSteady : 0); ++i) {
    const RequestResult result = ask(client, "bench", cycle * 100 + i, kTokens);
    if (!result.failure.empty() || result.tokens != kTokens) ++out.failures;
    if (cycle < kCompared) (i == 0 ? out.first_ms : out.steady_ms).push_back(result.ms);
  }
  HOLDFAST_CHECKED(operate(cluster, "models.unload", "bench"));
  HOLDFAST_CHECKED(wait_state(cluster, "bench", "unloaded"));
  out.rss.emplace_back(cycle, rss_bytes(cluster.worker("w0")));
  return {};
}

}  // namespace

Result<void> bench_cycles(const Options& options, Report& report) {
  HOLDFAST_TRY(const auto cluster, start_patient_cluster(options, "cycles"));
  HOLDFAST_CHECKED(cluster->start_worker("w0", {"--threads", "2"}, "model"));
  HOLDFAST_CHECKED(add_model(*cluster, options, {"bench", "", 4, 512, false}));
  HOLDFAST_TRY(const auto client, cluster->connect());
  const int cycles = options.count(100, 10);
  Cycles found;
  for (int i = 0; i < cycles; ++i) HOLDFAST_CHECKED(one_cycle(*cluster, *client, i, found));
  if (found.failures > 0) {
    report.problem("cycles: " + std::to_string(found.failures) + " requests failed");
  }
  report.add("cycles.count", cycles, "loads");
  report.add("cycles.failures", static_cast<double>(found.failures), "requests",
             Goal{0, Better::kLower});
  report.add("cycles.load_ms", summarize(found.load_ms), "ms");
  const auto settled = found.rss.begin() + cycles / 5;
  const std::vector<std::pair<double, double>> last(settled, found.rss.end());
  const double per_cycle = slope(last);
  constexpr double kSlopeMaxKib = 64;
  report.add("cycles.rss_per_cycle", per_cycle / 1024, "KiB", Goal{kSlopeMaxKib, Better::kLower},
             "slope over the last 80 %");
  if (!options.quick && per_cycle / 1024 > kSlopeMaxKib) {
    report.problem("cycles: each load leaves memory behind");
  }
  report.add("cycles.rss_after_mib", last.back().second / (1 << 20), "MiB");
  const double first = summarize(found.first_ms).p50;
  const double steady = summarize(found.steady_ms).p50;
  report.add("cycles.first_request_ms", summarize(found.first_ms), "ms");
  report.add("cycles.steady_request_ms", summarize(found.steady_ms), "ms");
  report.add("cycles.first_over_steady", first / steady, "x", Goal{1.2, Better::kLower});
  return {};
}

}  // namespace holdfast::bench
