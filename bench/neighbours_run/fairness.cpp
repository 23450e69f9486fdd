#include <atomic>
#include <thread>

#include "bench/neighbours_run/api_client.h"
#include "bench/neighbours_run/cases.h"

namespace holdfast::bench {
namespace {

constexpr int kStepUs = 5'000;  // of the fake engine

/// b's waits, one after the other, out of step with everything else.
Result<std::vector<double>> waits_of_b(ApiClient& api, int tries) {
  std::vector<double> waits;
  for (int i = 0; i < tries; ++i) {
    sleep_ms(30 + i * 7 % 20);
    HOLDFAST_TRY(const double ms, api.wait_of_b());
    waits.push_back(ms);
  }
  return waits;
}

/// b's waits next to one request of a, which is repeated as soon as it has ended.
Result<std::vector<double>> waits_with_one(ApiClient& api, int tries) {
  std::atomic<bool> stop = false;
  Result<void> good{};
  std::thread a([&] {
    while (!stop && good) good = api.one_of_a();
  });
  sleep_ms(100);
  auto waits = waits_of_b(api, tries);
  stop = true;
  a.join();
  if (!good) return good.error();
  return waits;
}

Result<std::vector<double>> waits_with_many(Served& served, ApiClient& api,
                                            const Crowding& crowding, int tries) {
  HOLDFAST_TRY(const std::int64_t before, served.status("/counters/accepted"));
  HOLDFAST_CHECKED(api.begin(crowding));
  std::int64_t accepted = 0;
  const std::int64_t until = now_us() + 60'000'000;
  while (accepted < crowding.requests) {
    if (now_us() > until) return Error{Errc::kTimeout, "requests of a are not accepted"};
    HOLDFAST_TRY(const std::int64_t now, served.status("/counters/accepted"));
    accepted = now - before;
    sleep_ms(10);
  }
  auto waits = waits_of_b(api, tries);
  HOLDFAST_TRY(const std::int64_t succeeded, served.status("/counters/succeeded"));
  HOLDFAST_TRY(const std::int64_t all, served.status("/counters/accepted"));
  HOLDFAST_CHECKED(api.end());
  if (succeeded >= all) return Error{Errc::kInternal, "a had nothing left while b waited"};
  return waits;
}

void add_ratios(Report& report, const std::string& name, const std::vector<double>& many,
                const Summary& one) {
  add_waits(report, name, many);
  const Summary waits = summarize(many);
  report.add(name + ".p50_x", ratio(waits.p50, one.p50), "of one", Goal{2, Better::kLower});
  report.add(name + ".p95_x", ratio(waits.p95, one.p95), "of one", Goal{2, Better::kLower});
}

/// Measures with one request before and after each kind of many, so that other load on the machine
/// affects both.
Result<void> measure_api(const Options& options, Served& served, ApiClient& api,
                         const std::string& name, Report& report) {
  const int tries = options.count(20, 5);
  const Crowding requests{options.count(2'048, 128), 1, 1};
  const Crowding choices{1, 16, options.count(128, 8)};
  (void)waits_of_b(api, 3);  // warm
  std::vector<double> one, many_requests, many_choices;
  for (const bool first : {true, false}) {
    HOLDFAST_TRY(const auto before, waits_with_one(api, tries));
    HOLDFAST_TRY(auto many, waits_with_many(served, api, first ? requests : choices, tries));
    HOLDFAST_TRY(const auto after, waits_with_one(api, tries));
    one.insert(one.end(), before.begin(), before.end());
    one.insert(one.end(), after.begin(), after.end());
    (first ? many_requests : many_choices) = std::move(many);
  }
  add_waits(report, name + ".one", one);
  add_ratios(report, name + ".requests", many_requests, summarize(one));
  add_ratios(report, name + ".choices", many_choices, summarize(one));
  return {};
}

}  // namespace

Result<void> bench_fairness(const Options& options, const std::string& engine, Report& report) {
  HOLDFAST_TRY(const auto served, serve(options, "fair", engine, kStepUs));
  const auto report_name = [&](const char* api) { return "fair." + engine + "." + api; };
  HOLDFAST_TRY(const auto sdk, make_sdk_api_client(*served));
  HOLDFAST_CHECKED(measure_api(options, *served, *sdk, report_name("sdk"), report));
  HOLDFAST_TRY(const std::string a, served->make_key("a"));
  HOLDFAST_TRY(const std::string b, served->make_key("b"));
  const auto http = make_http_api_client(served->port(), a, b);
  return measure_api(options, *served, *http, report_name("http"), report);
}

}  // namespace holdfast::bench
