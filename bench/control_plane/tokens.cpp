// Measures how many tokens a second are persisted and streamed, and their age at the client.
#include "bench/control_plane/cases.h"

namespace holdfast::bench {
namespace {

struct Shape {
  int streams;
  int step_us;
};

std::string stamping(const Shape& shape) {
  return R"({"stamp_ids":true,"step_us":)" + std::to_string(shape.step_us) + R"(,"slots":)" +
         std::to_string(shape.streams) + R"(,"pages":)" + std::to_string(shape.streams * 64) + "}";
}

struct Run {
  TokenAges::Result result;
  double persisted_per_s = 0;
  double chunks_per_s = 0;
  double busy = 0;
};

/// Runs long requests on one worker, all streamed to one client; `seconds` of them count.
Result<Run> run_streams(const Options& options, const std::string& name, const Shape& shape,
                        double seconds, double admissions_per_s) {
  HOLDFAST_TRY(const auto cluster, start_cluster(options, name));
  HOLDFAST_CHECKED(cluster->add_model(stamping(shape), shape.streams));
  HOLDFAST_CHECKED(cluster->start_worker("w0"));
  HOLDFAST_CHECKED(cluster->wait_ready(1));
  HOLDFAST_TRY(const auto client, cluster->connect());
  TokenAges ages;
  for (int i = 0; i < shape.streams; ++i) {
    auto answer = client->submit(client::Principal::local(), ids_submit(i, 4000));
    const auto* accepted = std::get_if<wire::Accepted>(&answer);
    if (accepted == nullptr) {
      const auto& refusal = std::get<client::Failure>(answer);
      return Error{refusal.code, "a stream was not accepted: " + refusal.message};
    }
    ages.watch(*client, accepted->info.request_id);
  }
  std::unique_ptr<PacedLoad> admissions;
  if (admissions_per_s > 0) {
    admissions =
        std::make_unique<PacedLoad>(cluster->clients_endpoint(), admissions_per_s,
                                    [](std::int64_t i) { return ids_submit(1'000'000 + i, 1); });
  }
  sleep_ms(seconds * 100);  // reach the steady state
  Run run;
  HOLDFAST_TRY(const double before, cluster->status("/counters/tokens"));
  const CpuTicks cpu = read_cpu_ticks();
  const std::int64_t begin = now_us();
  ages.begin();
  sleep_ms(seconds * 1000);
  run.result = ages.end();
  const double took_s = static_cast<double>(now_us() - begin) / 1e6;
  HOLDFAST_TRY(const double after, cluster->status("/counters/tokens"));
  run.busy = busy_percent(cpu, read_cpu_ticks());
  run.persisted_per_s = (after - before) / took_s;
  if (admissions) (void)admissions->stop();
  if (run.result.failures > 0) return Error{Errc::kInternal, "a stream failed"};
  if (run.result.tokens == 0) return Error{Errc::kInternal, "no token was heard"};
  return run;
}

}  // namespace

Result<void> bench_tokens(const Options& options, Report& report) {
  if (options.engine != "fake") {
    report.skip("tokens", "the fake engine alone stamps its tokens with the time");
    return {};
  }
  // 64 streams with an engine step of 1 ms request 64,000 tokens a second; they end after 4,000.
  HOLDFAST_TRY(const Run flood, run_streams(options, "flood", {64, 1000}, options.seconds(3), 0));
  report.add("tokens.persisted_rate", flood.persisted_per_s, "1/s", Goal{50'000, Better::kHigher},
             "64 streams, a step each ms, all streamed to a client");
  report.add("tokens.events_rate", static_cast<double>(flood.result.events) / options.seconds(3),
             "1/s");
  report.add("tokens.age_at_full_rate_ms", summarize(flood.result.age_ms), "ms");
  report.add("tokens.busy_at_full_rate", flood.busy, "%");
  // 16 streams at 50 steps a second each: what one good machine serves.
  const Shape calm{16, 20'000};
  HOLDFAST_TRY(const Run alone, run_streams(options, "calm", calm, options.seconds(10), 0));
  report.add("tokens.age_ms", summarize(alone.result.age_ms), "ms", "p50",
             Goal{0.5, Better::kLower});
  const Figure* rate = report.find("admission.rate_128");
  const double half = rate != nullptr ? rate->value / 2 : 2000;
  HOLDFAST_TRY(const Run mixed, run_streams(options, "mixed", calm, options.seconds(10), half));
  report.add("tokens.age_with_admissions_ms", summarize(mixed.result.age_ms), "ms");
  report.add("tokens.admissions_beside", half, "1/s");
  return {};
}

}  // namespace holdfast::bench
