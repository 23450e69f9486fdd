#include "bench/gateway_run/cases.h"

#include <sys/resource.h>

#include "bench/gateway_run/http_streams.h"

namespace holdfast::bench {
namespace {

constexpr double kKib = 1024;

struct Shape {
  int streams;
  int step_us;  // of the engine: makes a token of every stream
};

struct Run {
  StreamStats stats;
  double kib_per_stream = 0;
  double tokens_per_s = 0;  // generated and stored
  double us_per_token = 0;  // the gateway's processor time
  double cores = 0;         // that the gateway keeps busy
};

std::string engine(const Shape& shape) {
  return R"({"step_us":)" + std::to_string(shape.step_us) + R"(,"slots":)" +
         std::to_string(shape.streams) + R"(,"pages":)" + std::to_string(shape.streams * 64) + "}";
}

/// Raises the limit: the two ends of each connection, here and in the gateway, need descriptors.
void raise_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<std::unique_ptr<LocalCluster>> make_front(const Options& options, const std::string& name,
                                                 const Shape& shape) {
  raise_descriptors();
  HOLDFAST_TRY(auto cluster, start_cluster(options, name));
  HOLDFAST_CHECKED(cluster->add_model(engine(shape), shape.streams));
  HOLDFAST_CHECKED(cluster->start_worker("w0"));
  HOLDFAST_CHECKED(cluster->wait_ready(1));
  HOLDFAST_CHECKED(cluster->start_gateway({"--threads", "2", "--connections-per-address", "0"}));
  return cluster;
}

Result<Run> run_streams(const Options& options, const std::string& name, const Shape& shape,
                        double seconds) {
  HOLDFAST_TRY(const auto cluster, make_front(options, name, shape));
  HOLDFAST_TRY(const std::int64_t warm, post_completions(cluster->http_port(), 8, 64));
  if (warm != 64) return Error{Errc::kInternal, "the gateway refused plain requests"};
  const double before_kib = static_cast<double>(rss_bytes(cluster->gateway())) / kKib;
  HttpStreams streams;
  for (int i = 0; i < shape.streams; ++i) {
    HOLDFAST_CHECKED(streams.open(cluster->http_port(), 4000, i));
  }
  if (!streams.wait_first_events(120)) {
    return Error{Errc::kInternal, "not every stream began: " + cluster->log_tail("gateway")};
  }
  (void)streams.listen(seconds / 4);  // reach the steady state
  HOLDFAST_TRY(const double tokens, cluster->status("/counters/tokens"));
  const std::int64_t cpu = cpu_ms(cluster->gateway());
  Run run;
  run.stats = streams.listen(seconds);
  HOLDFAST_TRY(const double tokens_then, cluster->status("/counters/tokens"));
  const auto used_ms = static_cast<double>(cpu_ms(cluster->gateway()) - cpu);
  run.tokens_per_s = (tokens_then - tokens) / run.stats.seconds;
  run.us_per_token = used_ms * 1000 / std::max(tokens_then - tokens, 1.0);
  run.cores = used_ms / 1000 / run.stats.seconds;
  run.kib_per_stream = (static_cast<double>(rss_bytes(cluster->gateway())) / kKib - before_kib) /
                       static_cast<double>(shape.streams);
  if (run.stats.ended > 0) return Error{Errc::kInternal, "a stream broke off"};
  if (run.stats.gap_ms.empty()) return Error{Errc::kInternal, "no token was heard"};
  return run;
}

}  // namespace

Result<void> bench_streams(const Options& options, Report& report) {
  // Each stream gets five tokens a second, with few streams and with many.
  constexpr int kStepUs = 200'000;
  const int many = options.count(4096, 256);
  HOLDFAST_TRY(const Run baseline, run_streams(options, "few", {64, kStepUs}, options.seconds(20)));
  HOLDFAST_TRY(const Run all, run_streams(options, "many", {many, kStepUs}, options.seconds(20)));
  const Summary baseline_gap = summarize(baseline.stats.gap_ms);
  const Summary all_gap = summarize(all.stats.gap_ms);
  report.add("streams.open", many, "streams");
  report.add("streams.gap_64_ms", baseline_gap, "ms");
  report.add("streams.gap_all_ms", all_gap, "ms");
  report.add("streams.gap_p99_over_64", all_gap.p99 / baseline_gap.p99, "x",
             Goal{2, Better::kLower});
  report.add("streams.memory_each", all.kib_per_stream, "KiB", Goal{64, Better::kLower},
             "of the gateway");
  report.add("streams.tokens_rate", all.tokens_per_s, "1/s");
  report.add("streams.gateway_cores", all.cores, "cores");
  return {};
}

Result<void> bench_cost(const Options& options, Report& report) {
  {
    HOLDFAST_TRY(const auto cluster, make_front(options, "requests", {64, 0}));
    const int port = cluster->http_port();
    HOLDFAST_TRY(const std::int64_t warm, post_completions(port, 16, 200));
    const std::int64_t cpu = cpu_ms(cluster->gateway());
    const std::int64_t begin = now_us();
    const int count = options.count(20'000, 1000);
    HOLDFAST_TRY(const std::int64_t good, post_completions(port, 16, count));
    const double took_s = static_cast<double>(now_us() - begin) / 1e6;
    if (good != count || warm != 200) return Error{Errc::kInternal, "a request was refused"};
    const auto used_ms = static_cast<double>(cpu_ms(cluster->gateway()) - cpu);
    report.add("cost.request_ms", used_ms / count, "ms", Goal{0.3, Better::kLower},
               "processor time of the gateway");
    report.add("cost.requests_rate", count / took_s, "1/s", std::nullopt, "16 in flight");
  }
  // Each of 64 streams requests 100 tokens a second.
  HOLDFAST_TRY(const Run calm, run_streams(options, "calm", {64, 10'000}, options.seconds(10)));
  report.add("cost.token_us", calm.us_per_token, "us", Goal{20, Better::kLower},
             "processor time of the gateway, an event a token");
  report.add("cost.token_events", static_cast<double>(calm.stats.events) / calm.stats.seconds,
             "1/s");
  HOLDFAST_TRY(const Run flood, run_streams(options, "flood", {64, 900}, options.seconds(3)));
  report.add("cost.flood_rate", flood.tokens_per_s, "1/s", std::nullopt,
             "64 streams, a step each 0.9 ms");
  report.add("cost.flood_cores", flood.cores, "cores");
  report.add("cost.tokens_of_a_core", flood.tokens_per_s / flood.cores, "1/s",
             Goal{50'000, Better::kHigher});
  return {};
}

}  // namespace holdfast::bench
