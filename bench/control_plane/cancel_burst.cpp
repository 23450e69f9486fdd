// Measures cancels under load, and a burst that must leave no trace.
#include <algorithm>

#include "bench/control_plane/cases.h"

namespace holdfast::bench {
namespace {

/// Milliseconds of each cancel, without requests that had ended before.
Result<std::vector<double>> cancel_all(LocalCluster& cluster, const std::vector<std::string>& ids) {
  HOLDFAST_TRY(const auto client, cluster.connect());
  std::vector<double> took;
  for (const std::string& id : ids) {
    const std::int64_t begin = now_us();
    const auto answer = client->cancel(client::AllTenants::local(), id);
    took.push_back(static_cast<double>(now_us() - begin) / 1000);
    const auto* info = std::get_if<wire::RequestInfo>(&answer);
    if (info != nullptr && info->state == wire::RequestState::kSucceeded) {
      took.pop_back();
      continue;
    }
    if (info == nullptr || info->state != wire::RequestState::kCancelled) {
      return Error{Errc::kInternal, "a cancel was not answered with `cancelled`"};
    }
  }
  if (took.empty()) return Error{Errc::kInternal, "every request ended before its cancel"};
  return took;
}

Result<std::vector<std::string>> submit_all(LocalCluster& cluster, std::int64_t first,
                                            std::int64_t count, std::int64_t max_tokens) {
  std::mutex mutex;
  std::vector<std::string> ids;
  const LoadResult result = closed_load(
      cluster.clients_endpoint(), 1, 64, count,
      [&](std::int64_t i) { return ids_submit(first + i, max_tokens); },
      [&](const wire::RequestInfo& info) {
        const std::lock_guard lock(mutex);
        ids.push_back(info.request_id);
      });
  if (result.accepted != count) return Error{Errc::kInternal, result.first_failure};
  return ids;
}

/// Waits until `count` choices run, for at most a second: some of a quick engine may have ended.
Result<void> wait_running(LocalCluster& cluster, int count) {
  for (const std::int64_t begin = now_us(); now_us() - begin < 1'000'000;) {
    HOLDFAST_TRY(const double running, cluster.status("/queue/running_choices"));
    if (running >= count) return {};
    sleep_ms(1);
  }
  return {};
}

}  // namespace

Result<void> bench_cancel(const Options& options, Report& report) {
  HOLDFAST_TRY(const auto cluster, start_cluster(options, "cancel"));
  const EngineLimits limits = limits_of(options);
  const int slots = options.count(64, 4);
  HOLDFAST_CHECKED(cluster->add_model(R"({"step_us":5000,"slots":)" + std::to_string(slots) +
                                          R"(,"pages":)" + std::to_string(slots * 64) + "}",
                                      slots, limits.context));
  HOLDFAST_CHECKED(cluster->start_worker("w0", limits.flags));
  HOLDFAST_CHECKED(cluster->wait_ready(1));
  // Requests of a quick engine end within tenths of a second: what runs is cancelled as soon as it
  // does, and what waits as soon as it is behind others.
  HOLDFAST_TRY(const auto running, submit_all(*cluster, 0, slots, limits.longest));
  HOLDFAST_CHECKED(wait_running(*cluster, slots));
  const Figure* rate = report.find("admission.rate_128");
  const double load = std::min(rate != nullptr ? rate->value / 2 : 1000, 1000.0);
  PacedLoad background_load(cluster->clients_endpoint(), load,
                            [](std::int64_t i) { return ids_submit(1'000'000 + i, 1); });
  HOLDFAST_TRY(std::vector<double> running_ms, cancel_all(*cluster, running));
  HOLDFAST_TRY(const auto ahead, submit_all(*cluster, 20'000, slots, limits.longest));
  HOLDFAST_TRY(const auto waiting,
               submit_all(*cluster, 10'000, options.count(200, 4), limits.longest));
  HOLDFAST_TRY(std::vector<double> queued_ms, cancel_all(*cluster, waiting));
  const LoadResult admitted = background_load.stop();
  if (admitted.accepted == 0) report.problem("cancel: the load beside it admitted nothing");
  report.add("cancel.queued_ms", summarize(queued_ms), "ms", "p95", Goal{250, Better::kLower});
  report.add("cancel.running_ms", summarize(running_ms), "ms", "p95", Goal{250, Better::kLower});
  report.add("cancel.admissions_beside", admitted.rate(), "1/s");
  return {};
}

namespace {

/// Waits until next to nothing is live.
Result<void> wait_calm(LocalCluster& cluster, Report& report) {
  constexpr double kPatienceS = 120;
  const std::int64_t begin = now_us();
  HOLDFAST_TRY(double live, cluster.status("/queue/live_requests"));
  while (live > 5 && static_cast<double>(now_us() - begin) < kPatienceS * 1e6) {
    sleep_ms(10);
    HOLDFAST_TRY(live, cluster.status("/queue/live_requests"));
  }
  if (live > 5) report.problem("burst: still " + std::to_string(live) + " live after 120 s");
  return {};
}

}  // namespace

Result<void> bench_burst(const Options& options, Report& report) {
  HOLDFAST_TRY(const auto cluster, start_cluster(options, "burst"));
  const EngineLimits limits = limits_of(options);
  constexpr int kSlots = 64;
  constexpr int kStepUs = 2000;
  constexpr int kTokens = 4;
  HOLDFAST_CHECKED(cluster->add_model(
      R"({"slots":64,"pages":4096,"prefill_chunk":4096,"step_us":)" + std::to_string(kStepUs) + "}",
      kSlots, limits.context));
  HOLDFAST_CHECKED(cluster->start_worker("w0", limits.flags));
  HOLDFAST_CHECKED(cluster->wait_ready(1));
  const std::int64_t warm_up = now_us();
  HOLDFAST_TRY(const auto warm, submit_all(*cluster, 0, 500, kTokens));
  HOLDFAST_CHECKED(wait_calm(*cluster, report));
  const double request_s = static_cast<double>(now_us() - warm_up) / 1e6 / 500;
  sleep_ms(1000);
  const std::int64_t rss_before = rss_bytes(cluster->daemon());
  const std::int64_t burst = options.count(10'000, 500);
  const LoadResult sent =
      closed_load(cluster->clients_endpoint(), 2, 1024, burst,
                  [](std::int64_t i) { return ids_submit(1'000'000 + i, kTokens); });
  if (sent.accepted != burst) return Error{Errc::kInternal, sent.first_failure};
  const std::int64_t silence = now_us();
  HOLDFAST_TRY(const double left, cluster->status("/queue/live_requests"));
  HOLDFAST_CHECKED(wait_calm(*cluster, report));
  const double calm_s = static_cast<double>(now_us() - silence) / 1e6;
  // One prefill and its token, then a step a token, for as many batches as the rest needs. For the
  // real engine, the time that a request took before the burst.
  const double engine_s =
      options.engine == "fake" ? left / kSlots * kTokens * kStepUs / 1e6 : left * request_s;
  sleep_ms(options.quick ? 500 : 8000);  // the daemon releases memory after five seconds of silence
  const std::int64_t rss_after = rss_bytes(cluster->daemon());
  report.add("burst.requests", static_cast<double>(burst), "requests");
  report.add("burst.sent_in_s", sent.seconds, "s");
  report.add("burst.left_at_silence", left, "requests");
  report.add("burst.silence_to_calm_s", calm_s, "s");
  report.add("burst.engine_time_s", engine_s, "s", std::nullopt, "of what was left, at best");
  report.add("burst.calm_beyond_engine_s", std::max(0.0, calm_s - engine_s), "s",
             Goal{30, Better::kLower});
  report.add("burst.rss_before_mib", static_cast<double>(rss_before) / (1 << 20), "MiB");
  report.add("burst.rss_after_mib", static_cast<double>(rss_after) / (1 << 20), "MiB");
  return {};
}

}  // namespace holdfast::bench
