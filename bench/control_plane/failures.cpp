// Workers killed and stopped: how long until their work is queued again, also on a busy machine;
// and whether a busy machine makes the daemon give up workers that are well.
#include <signal.h>

#include <thread>

#include "bench/control_plane/cases.h"

namespace holdfast::bench {
namespace {

const std::string kSlow = R"({"step_us":5000,"slots":4,"pages":256})";

/// Two workers with long requests on both. The daemon writes down when it takes work off a worker
/// (milliseconds of wall time); our kill has the same clock.
class Victims {
 public:
  Victims(House& house, int workers) : house_(house), workers_(workers) {}
  Result<void> start() {
    for (int i = 0; i < workers_; ++i) HF_CHECKED(house_.start_worker(key(i)));
    HF_CHECKED(house_.wait_ready(workers_));
    const LoadResult filled = closed_load(house_.clients_endpoint(), 1, 8, workers_ * 4,
                                          [](std::int64_t i) { return ids_submit(i, 4000); });
    if (filled.accepted != workers_ * 4) return Error{Errc::kInternal, filled.first_failure};
    return {};
  }
  /// Sends the signal to a worker with running work; milliseconds until all of it is queued again.
  Result<double> hit(int number, int signal) {
    const std::string name = key(number);
    HF_CHECKED(wait_running(name));
    const double at_ms = static_cast<double>(now_us()) / 1000;
    const double wall = static_cast<double>(wall_ms());
    kill(house_.worker(name), signal);
    for (int i = 0; i < 500; ++i) {
      sleep_ms(10);
      HF_TRY(const auto ended,
             query_numbers(house_.dir(), "SELECT ended_ms FROM attempts WHERE worker_key='" + name +
                                             "' AND reason LIKE 'worker lost%' AND ended_ms >= " +
                                             std::to_string(static_cast<std::int64_t>(wall))));
      if (!ended.empty()) return summarize(ended).max - wall;
    }
    (void)at_ms;
    return Error{Errc::kTimeout, name + ": its work was not queued again within 5 s"};
  }
  Result<void> restart(int number) {
    house_.kill_worker(key(number));
    HF_CHECKED(house_.start_worker(key(number)));
    return house_.wait_ready(workers_);
  }
  Result<void> wait_running(const std::string& name) {
    for (int i = 0; i < 1000; ++i) {
      HF_TRY(const auto open, query_numbers(house_.dir(),
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
  House& house_;
  int workers_;
};

int cores() {
  return static_cast<int>(std::thread::hardware_concurrency());
}

Result<Summary> measure_hits(const Options& options, const std::string& name, int signal,
                             int spinners, int full) {
  HF_TRY(const auto house, make_house(options, name));
  HF_CHECKED(house->add_model(kSlow, 4));
  Victims victims(*house, 2);
  HF_CHECKED(victims.start());
  std::vector<double> took;
  const Spinners load(spinners);
  for (int i = 0; i < options.count(full, 2); ++i) {
    HF_TRY(const double ms, victims.hit(i % 2, signal));
    took.push_back(ms);
    // A stopped worker would be woken by the kill of its next start only: it is replaced too.
    HF_CHECKED(victims.restart(i % 2));
  }
  return summarize(std::move(took));
}

}  // namespace

Result<void> bench_failures(const Options& options, Report& report) {
  const int spinners = 3 * cores();
  HF_TRY(const Summary killed, measure_hits(options, "kill", SIGKILL, 0, 60));
  report.add("failures.kill_to_requeued_ms", killed, "ms", "p99", Goal{50, Better::kLower});
  HF_TRY(const Summary killed_busy, measure_hits(options, "kill-busy", SIGKILL, spinners, 40));
  report.add("failures.kill_to_requeued_busy_ms", killed_busy, "ms");
  HF_TRY(const Summary stopped, measure_hits(options, "stop", SIGSTOP, 0, 40));
  report.add("failures.stop_to_requeued_ms", stopped, "ms");
  HF_TRY(const Summary stopped_busy, measure_hits(options, "stop-busy", SIGSTOP, spinners, 40));
  report.add("failures.stop_to_requeued_busy_ms", stopped_busy, "ms", "max",
             Goal{120, Better::kLower});
  report.add("failures.spinners", spinners, "processes");
  return {};
}

/// Nobody is hurt here: every worker that is given up is a false suspicion.
Result<void> bench_suspicion(const Options& options, Report& report) {
  const int spinners = 3 * cores();
  HF_TRY(const auto house, make_house(options, "false"));
  HF_CHECKED(house->add_model(kSlow, 4));
  constexpr int kWorkers = 4;
  Victims victims(*house, kWorkers);
  HF_CHECKED(victims.start());
  const double seconds = options.quick ? 3 : 600;
  const CpuTicks before = read_cpu_ticks();
  {
    const Spinners load(spinners);
    sleep_ms(seconds * 1000);
  }
  HF_TRY(const double lost, house->status("/counters/workers_lost"));
  report.add("suspicion.false", lost, "workers", Goal{0, Better::kLower},
             std::to_string(kWorkers) + " workers beside " + std::to_string(spinners) +
                 " spinning processes");
  report.add("suspicion.worker_s", kWorkers * seconds, "s");
  report.add("suspicion.busy", busy_percent(before, read_cpu_ticks()), "%");
  return {};
}

}  // namespace holdfast::bench
