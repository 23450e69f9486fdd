#include <atomic>
#include <thread>

#include "bench/neighbours_run/cases.h"
#include "bench/neighbours_run/door.h"

namespace holdfast::bench {
namespace {

constexpr int kStepUs = 5'000;  // of the fake engine

/// b's waits, one after the other, not in step with anything.
Result<std::vector<double>> waits_of_b(Door& door, int tries) {
  std::vector<double> waits;
  for (int i = 0; i < tries; ++i) {
    sleep_ms(30 + i * 7 % 20);
    HF_TRY(const double ms, door.wait_of_b());
    waits.push_back(ms);
  }
  return waits;
}

/// Beside one request of a: as soon as it has ended there is the next.
Result<std::vector<double>> beside_one(Door& door, int tries) {
  std::atomic<bool> stop = false;
  Result<void> good{};
  std::thread a([&] {
    while (!stop && good) good = door.one_of_a();
  });
  sleep_ms(100);
  auto waits = waits_of_b(door, tries);
  stop = true;
  a.join();
  if (!good) return good.error();
  return waits;
}

Result<std::vector<double>> beside_many(Served& served, Door& door, const Crowding& crowding,
                                        int tries) {
  HF_TRY(const std::int64_t before, served.status("/counters/accepted"));
  HF_CHECKED(door.begin(crowding));
  std::int64_t accepted = 0;
  const std::int64_t until = now_us() + 60'000'000;
  while (accepted < crowding.requests) {
    if (now_us() > until) return Error{Errc::kTimeout, "requests of a are not accepted"};
    HF_TRY(const std::int64_t now, served.status("/counters/accepted"));
    accepted = now - before;
    sleep_ms(10);
  }
  auto waits = waits_of_b(door, tries);
  HF_TRY(const std::int64_t succeeded, served.status("/counters/succeeded"));
  HF_TRY(const std::int64_t all, served.status("/counters/accepted"));
  HF_CHECKED(door.end());
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

/// Beside one before and after each kind of many, so that the machine's moods meet both.
Result<void> measure_door(const Options& options, Served& served, Door& door,
                          const std::string& name, Report& report) {
  const int tries = options.count(20, 5);
  const Crowding requests{options.count(2'048, 128), 1, 1};
  const Crowding choices{1, 16, options.count(128, 8)};
  (void)waits_of_b(door, 3);  // warm
  std::vector<double> one, many_requests, many_choices;
  for (const bool first : {true, false}) {
    HF_TRY(const auto before, beside_one(door, tries));
    HF_TRY(auto many, beside_many(served, door, first ? requests : choices, tries));
    HF_TRY(const auto after, beside_one(door, tries));
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
  HF_TRY(const auto served, serve(options, "fair", engine, kStepUs));
  const auto report_name = [&](const char* door) { return "fair." + engine + "." + door; };
  HF_TRY(const auto sdk, sdk_door(*served));
  HF_CHECKED(measure_door(options, *served, *sdk, report_name("sdk"), report));
  HF_TRY(const std::string a, served->make_key("a"));
  HF_TRY(const std::string b, served->make_key("b"));
  const auto http = http_door(served->port(), a, b);
  return measure_door(options, *served, *http, report_name("http"), report);
}

}  // namespace holdfast::bench
