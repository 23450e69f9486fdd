// Kills and stops workers: measures how long until their work is queued again, also on a busy
// machine, and if a busy machine makes the daemon give up healthy workers.
#include <signal.h>

#include <thread>

#include "bench/control_plane/cases.h"

namespace holdfast::bench {
namespace {

const std::string kSlow = R"({"step_us":5000,"slots":4,"pages":256})";

/// Workers with long requests on all of them. The daemon records when it takes work off a worker
/// (milliseconds of wall time); the time of the kill is by the same clock.
class Victims {
 public:
  Victims(LocalCluster& cluster, const EngineLimits& limits, int workers)
      : cluster_(cluster), limits_(limits), workers_(workers) {}
  Result<void> start() {
    HOLDFAST_CHECKED(cluster_.add_model(kSlow, kSlots, limits_.context));
    for (int i = 0; i < workers_; ++i)
      HOLDFAST_CHECKED(cluster_.start_worker(key(i), limits_.flags));
    HOLDFAST_CHECKED(cluster_.wait_ready(workers_));
    return fill();
  }
  /// Tops the work up to twice the number of slots: ended requests are replaced, so that no slot is
  /// idle.
  Result<void> fill() {
    HOLDFAST_TRY(const double live, cluster_.status("/queue/live_requests"));
    const std::int64_t missing = 2 * kSlots * workers_ - static_cast<std::int64_t>(live);
    if (missing <= 0) return {};
    const LoadResult filled =
        closed_load(cluster_.clients_endpoint(), 1, 8, missing,
                    [&](std::int64_t i) { return ids_submit(next_ + i, limits_.longest); });
    next_ += missing;
    if (filled.accepted != missing) return Error{Errc::kInternal, filled.first_failure};
    return {};
  }
  /// Sends the signal to a worker with running work; gives the milliseconds until all of it is
  /// queued again.
  Result<double> hit(int number, int signal) {
    const std::string name = key(number);
    HOLDFAST_CHECKED(wait_running(name));
    const double wall = static_cast<double>(wall_ms());
    kill(cluster_.worker(name), signal);
    for (int i = 0; i < 500; ++i) {
      sleep_ms(10);
      HOLDFAST_TRY(
          const auto ended,
          query_numbers(cluster_.dir(), "SELECT ended_ms FROM attempts WHERE worker_key='" + name +
                                            "' AND reason LIKE 'worker lost%' AND ended_ms >= " +
                                            std::to_string(static_cast<std::int64_t>(wall))));
      if (!ended.empty()) return summarize(ended).max - wall;
    }
    return Error{Errc::kTimeout, name + ": its work was not queued again within 5 s"};
  }
  Result<void> restart(int number) {
    cluster_.kill_worker(key(number));
    HOLDFAST_CHECKED(cluster_.start_worker(key(number), limits_.flags));
    return cluster_.wait_ready(workers_);
  }
  Result<void> wait_running(const std::string& name) {
    for (int i = 0; i < 1000; ++i) {
      HOLDFAST_CHECKED(fill());
      HOLDFAST_TRY(const auto open,
                   query_numbers(cluster_.dir(),
                                 "SELECT count(*) FROM attempts WHERE ended_ms IS NULL"
                                 " AND worker_key='" +
                                     name + "'"));
      if (!open.empty() && open[0] > 0) return {};
      sleep_ms(5);
    }
    return Error{Errc::kTimeout, name + ": got no work"};
  }

 private:
  static std::string key(int i) { return "w" + std::to_string(i); }
  static constexpr int kSlots = 4;
  LocalCluster& cluster_;
  EngineLimits limits_;
  int workers_;
  std::int64_t next_ = 0;  // number of the next request
};

int cores() {
  return static_cast<int>(std::thread::hardware_concurrency());
}

Result<Summary> measure_hits(const Options& options, const std::string& name, int signal,
                             int spinners, int full) {
  HOLDFAST_TRY(const auto cluster, start_cluster(options, name));
  Victims victims(*cluster, limits_of(options), 2);
  HOLDFAST_CHECKED(victims.start());
  std::vector<double> took;
  const Spinners load(spinners);
  for (int i = 0; i < options.count(full, 2); ++i) {
    HOLDFAST_TRY(const double ms, victims.hit(i % 2, signal));
    took.push_back(ms);
    // A stopped worker would end only by the kill of its next start: it is replaced too.
    HOLDFAST_CHECKED(victims.restart(i % 2));
  }
  return summarize(std::move(took));
}

}  // namespace

Result<void> bench_failures(const Options& options, Report& report) {
  const int spinners = 3 * cores();
  HOLDFAST_TRY(const Summary killed, measure_hits(options, "kill", SIGKILL, 0, 60));
  report.add("failures.kill_to_requeued_ms", killed, "ms", "p99", Goal{50, Better::kLower});
  HOLDFAST_TRY(const Summary killed_busy,
               measure_hits(options, "kill-busy", SIGKILL, spinners, 40));
  report.add("failures.kill_to_requeued_busy_ms", killed_busy, "ms");
  HOLDFAST_TRY(const Summary stopped, measure_hits(options, "stop", SIGSTOP, 0, 40));
  report.add("failures.stop_to_requeued_ms", stopped, "ms");
  HOLDFAST_TRY(const Summary stopped_busy,
               measure_hits(options, "stop-busy", SIGSTOP, spinners, 40));
  report.add("failures.stop_to_requeued_busy_ms", stopped_busy, "ms", "max",
             Goal{120, Better::kLower});
  report.add("failures.spinners", spinners, "processes");
  return {};
}

/// No worker is disturbed here: each one that is given up is a false suspicion.
Result<void> bench_suspicion(const Options& options, Report& report) {
  const int spinners = 3 * cores();
  HOLDFAST_TRY(const auto cluster, start_cluster(options, "false"));
  constexpr int kWorkers = 4;
  Victims victims(*cluster, limits_of(options), kWorkers);
  HOLDFAST_CHECKED(victims.start());
  const double seconds = options.quick ? 3 : 600;
  const CpuTicks before = read_cpu_ticks();
  {
    const Spinners load(spinners);
    const std::int64_t until = now_us() + static_cast<std::int64_t>(seconds * 1e6);
    while (now_us() < until) {
      HOLDFAST_CHECKED(victims.fill());
      sleep_ms(500);
    }
  }
  HOLDFAST_TRY(const double lost, cluster->status("/counters/workers_lost"));
  report.add("suspicion.false", lost, "workers", Goal{0, Better::kLower},
             std::to_string(kWorkers) + " workers beside " + std::to_string(spinners) +
                 " spinning processes");
  HOLDFAST_TRY(const double suspected, cluster->status("/counters/suspicions"));
  report.add("suspicion.suspected", suspected, "times", std::nullopt,
             "silent for a moment: no new work, nothing lost");
  report.add("suspicion.worker_s", kWorkers * seconds, "s");
  report.add("suspicion.busy", busy_percent(before, read_cpu_ticks()), "%");
  return {};
}

}  // namespace holdfast::bench
