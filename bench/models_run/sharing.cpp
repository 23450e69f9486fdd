// Work over several workers, and what the checks of bounds cost.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/models_run/cases.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

constexpr int kWorkers = 4;

Result<std::vector<double>> tokens_of_workers(House& house) {
  HF_TRY(const std::string text, house.op("workers.list"));
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
  HF_TRY(const auto house, patient_house(options, "balance", {"models.loads_at_once=4"}));
  HF_CHECKED(add_model(*house, options,
                       {"bench", R"({"step_us":5000,"slots":8,"pages":512})", 8, 1024, true}));
  for (int i = 0; i < kWorkers; ++i) {
    HF_CHECKED(house->start_worker("w" + std::to_string(i)));
  }
  HF_CHECKED(house->wait_ready(kWorkers));
  // Requests of unlike length, always more than there are slots.
  const double seconds = options.seconds(60);
  const auto count = static_cast<std::int64_t>(seconds * 200 * 32 / 70) + 200;
  HF_TRY(const auto before, tokens_of_workers(*house));
  const LoadResult load = closed_load(house->clients_endpoint(), 2, 64, count, [](std::int64_t i) {
    return ids_submit(i, 10 + i * 37 % 120);
  });
  if (load.accepted != count) {
    report.problem("balance: requests were refused: " + load.first_failure);
  }
  sleep_ms(seconds * 1000);
  HF_TRY(const double left, house->status("/queue/queued_choices"));
  if (left < 1) report.problem("balance: the queue ran dry, that is no saturation");
  sleep_ms(1100);  // the workers report once a second
  HF_TRY(const auto after, tokens_of_workers(*house));
  std::vector<double> made;
  for (std::size_t i = 0; i < after.size(); ++i) made.push_back(after[i] - before[i]);
  const Summary s = summarize(made);
  report.add("balance.tokens_per_worker", s.mean, "tokens");
  report.add("balance.imbalance", 100 * (s.max - s.min) / s.mean, "%", Goal{5, Better::kLower},
             "(max - min) / mean over four equal workers");
  return {};
}

namespace {

struct Guarded {
  std::vector<double> latency_ms;
  double rate = 0;
};

Result<Guarded> measure_guarded(const Options& options, const std::string& name, bool guarded,
                                double per_second) {
  if (guarded) {
    unsetenv("HOLDFAST_TEST_UNGUARDED");
  } else {
    setenv("HOLDFAST_TEST_UNGUARDED", "1", 1);
  }
  // Bounds of every kind, none of which is reached.
  std::vector<std::string> config = {"tenant.*.max_running=100000", "model.*.max_pages=10000000",
                                     "worker.*.max_running=100000", "queue.max_running=100000",
                                     "tenant.*.max_waiting=1000000"};
  auto made = patient_house(options, name, config);
  unsetenv("HOLDFAST_TEST_UNGUARDED");
  HF_TRY(const auto house, std::move(made));
  HF_CHECKED(add_model(*house, options,
                       {"bench", R"({"slots":256,"pages":4096,"step_us":500})", 256, 1024, true}));
  HF_CHECKED(house->start_worker("w0"));
  HF_CHECKED(house->wait_ready(1));
  Guarded found;
  PacedLoad paced(house->clients_endpoint(), per_second,
                  [](std::int64_t i) { return ids_submit(i, 4); });
  sleep_ms(options.seconds(8) * 1000);
  LoadResult open = paced.stop();
  found.latency_ms = std::move(open.latency_ms);
  const std::int64_t count = options.count(20'000, 500);
  const LoadResult closed =
      closed_load(house->clients_endpoint(), 2, 128, count,
                  [](std::int64_t i) { return ids_submit(1'000'000 + i, 4); });
  if (closed.accepted != count) return Error{Errc::kInternal, closed.first_failure};
  found.rate = closed.rate();
  return found;
}

}  // namespace

Result<void> bench_guards(const Options& options, Report& report) {
  std::vector<double> latency_ratios, rate_ratios;
  const int pairs = options.count(6, 1);
  for (int i = 0; i < pairs; ++i) {
    Guarded with, without;
    // In turn first, so that what the machine does meanwhile meets both.
    for (const bool guarded : {i % 2 == 0, i % 2 != 0}) {
      HF_TRY((guarded ? with : without),
             measure_guarded(options, "guards-" + std::to_string(i) + (guarded ? "-on" : "-off"),
                             guarded, 2000));
    }
    latency_ratios.push_back(summarize(with.latency_ms).p99 / summarize(without.latency_ms).p99);
    rate_ratios.push_back(with.rate / without.rate);
  }
  report.add("guards.p99_on_over_off", summarize(latency_ratios).p50, "x",
             Goal{1.1, Better::kLower}, "median of pairs, 2,000 a second");
  report.add("guards.rate_on_over_off", summarize(rate_ratios).p50, "x", Goal{0.9, Better::kHigher},
             "128 in flight");
  return {};
}

}  // namespace holdfast::bench
