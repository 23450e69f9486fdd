// Work over several workers, and the cost of checking limits.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/models_run/cases.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

constexpr int kWorkers = 4;

Result<std::vector<double>> tokens_of_workers(LocalCluster& cluster) {
  HOLDFAST_TRY(const std::string text, cluster.op("workers.list"));
  const json document = try_parse_json<json>(text);
  std::vector<double> tokens;
  for (const json& worker : document.value("workers", json::array())) {
    tokens.push_back(worker.value("tokens", 0.0));
  }
  if (tokens.size() != kWorkers) return Error{Errc::kInternal, "a worker is gone"};
  return tokens;
}

}  // namespace

Result<void> bench_balance(const Options& options, Report& report) {
  HOLDFAST_TRY(const auto cluster,
               start_patient_cluster(options, "balance", {"models.loads_at_once=4"}));
  HOLDFAST_CHECKED(add_model(
      *cluster, options, {"bench", R"({"step_us":5000,"slots":8,"pages":512})", 8, 1024, true}));
  for (int i = 0; i < kWorkers; ++i) {
    HOLDFAST_CHECKED(cluster->start_worker("w" + std::to_string(i)));
  }
  HOLDFAST_CHECKED(cluster->wait_ready(kWorkers));
  // Requests of different lengths, always more than there are slots.
  const double seconds = options.seconds(60);
  const auto count = static_cast<std::int64_t>(seconds * 200 * 32 / 70) + 200;
  HOLDFAST_TRY(const auto before, tokens_of_workers(*cluster));
  const LoadResult load =
      closed_load(cluster->clients_endpoint(), 2, 64, count,
                  [](std::int64_t i) { return ids_submit(i, 10 + i * 37 % 120); });
  if (load.accepted != count) {
    report.problem("balance: requests were refused: " + load.first_failure);
  }
  sleep_ms(seconds * 1000);
  HOLDFAST_TRY(const double left, cluster->status("/queue/queued_choices"));
  if (left < 1) report.problem("balance: the queue ran dry, that is no saturation");
  sleep_ms(1100);  // the workers report once a second
  HOLDFAST_TRY(const auto after, tokens_of_workers(*cluster));
  std::vector<double> made;
  for (std::size_t i = 0; i < after.size(); ++i) made.push_back(after[i] - before[i]);
  const Summary s = summarize(made);
  report.add("balance.tokens_per_worker", s.mean, "tokens");
  report.add("balance.imbalance", 100 * (s.max - s.min) / s.mean, "%", Goal{5, Better::kLower},
             "(max - min) / mean over four equal workers");
  return {};
}

}  // namespace holdfast::bench
