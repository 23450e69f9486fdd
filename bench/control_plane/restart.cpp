// Kills the daemon with a full queue and measures how long until it accepts again.
#include <sys/wait.h>

#include "bench/control_plane/cases.h"

namespace holdfast::bench {
namespace {

/// Milliseconds of a start that does nothing: exec, libraries, main.
Result<double> bare_start_ms(const Options& options) {
  std::vector<double> took;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t begin = now_us();
    HOLDFAST_TRY(const pid_t pid, spawn({options.programs + "/holdfastd", "--help"},
                                        options.scratch + "/start.out"));
    waitpid(pid, nullptr, 0);
    took.push_back(static_cast<double>(now_us() - begin) / 1000);
  }
  return summarize(std::move(took)).p50;
}

}  // namespace

Result<void> bench_restart(const Options& options, Report& report) {
  HOLDFAST_TRY(const auto cluster, start_cluster(options, "restart",
                                                 {"queue.max_requests=10000000",
                                                  "queue.max_tenant_requests=10000000"}));
  HOLDFAST_CHECKED(cluster->add_model("{}", 8));
  const std::int64_t queued = options.count(100'000, 500);
  const LoadResult filled = closed_load(cluster->clients_endpoint(), 2, 512, queued,
                                        [](std::int64_t i) { return ids_submit(i, 16); });
  if (filled.accepted != queued) {
    return Error{Errc::kInternal, "the queue could not be filled: " + filled.first_failure};
  }
  HOLDFAST_TRY(const double start_ms, bare_start_ms(options));
  std::vector<double> up_ms;
  for (int i = 0; i < options.count(20, 2); ++i) {
    cluster->kill_daemon();
    const std::int64_t begin = now_us();
    HOLDFAST_CHECKED(cluster->start_daemon());
    // A client that waits: its submission is answered once it is durable.
    const LoadResult one = closed_load(cluster->clients_endpoint(), 1, 1, 1, [&](std::int64_t) {
      return ids_submit(10'000'000 + i, 16);
    });
    up_ms.push_back(static_cast<double>(now_us() - begin) / 1000);
    if (one.accepted != 1) return Error{Errc::kInternal, "no answer after a restart"};
  }
  HOLDFAST_TRY(const double live, cluster->status("/queue/live_requests"));
  const double expected = static_cast<double>(queued + options.count(20, 2));
  if (live != expected) {
    report.problem("restart: " + std::to_string(live) + " requests live instead of " +
                   std::to_string(expected));
  }
  report.add("restart.queued", static_cast<double>(queued), "requests");
  report.add("restart.process_start_ms", start_ms, "ms", std::nullopt, "exec to the end of --help");
  report.add("restart.kill_to_accepted_ms", summarize(up_ms), "ms", "p99",
             Goal{250 + start_ms, Better::kLower});
  return {};
}

}  // namespace holdfast::bench
