#include <algorithm>

#include "bench/neighbours_run/asker.h"
#include "bench/neighbours_run/cases.h"
#include "bench/neighbours_run/crowd.h"

namespace holdfast::bench {
namespace {

constexpr double kMib = 1 << 20;
constexpr double kPauseMs = 10;

double rss_mib(pid_t pid) {
  return static_cast<double>(rss_bytes(pid)) / kMib;
}

/// An owner's request times, on a reused connection and on a new one each time.
struct Owner {
  std::vector<double> reused, fresh;
};

struct Window {
  const Served& served;
  std::string key;
  double seconds;
  pid_t gateway;

  /// Sends the owner's requests for so long; the gateway's peak memory meanwhile goes into `mib`.
  Result<void> run(Owner& owner, double* mib) const {
    Asker reused(served.port(), key, true, kPauseMs);
    Asker fresh(served.port(), key, false, kPauseMs);
    const std::int64_t until = now_us() + static_cast<std::int64_t>(seconds * 1e6);
    while (now_us() < until) {
      *mib = std::max(*mib, rss_mib(gateway));
      sleep_ms(50);
    }
    HOLDFAST_CHECKED(collect(reused.stop(), &owner.reused));
    return collect(fresh.stop(), &owner.fresh);
  }
};

/// Counts of the strangers themselves, summed over the rounds.
struct Totals {
  std::int64_t connected = 0, dropped = 0, cpu_ms = 0;
  double seconds = 0;
};

Result<void> run_with_strangers(const Options& options, const Window& window, Owner& owner,
                                double* mib, Totals* totals) {
  const int count = options.count(8'192, 512);
  HOLDFAST_TRY(const Crowd crowd,
               Crowd::start(window.served.port(), count, options.scratch + "/crowd"));
  const std::int64_t until = now_us() + 60'000'000;
  while (crowd.state().connected < count) {
    if (now_us() > until) return Error{Errc::kTimeout, "strangers cannot connect"};
    *mib = std::max(*mib, rss_mib(window.gateway));
    sleep_ms(20);
  }
  const CrowdState before = crowd.state();
  const std::int64_t cpu = cpu_ms(crowd.pid());
  HOLDFAST_CHECKED(window.run(owner, mib));
  const CrowdState after = crowd.state();
  totals->connected += after.connected - before.connected;
  totals->dropped += after.dropped - before.dropped;
  totals->cpu_ms += cpu_ms(crowd.pid()) - cpu;
  totals->seconds += window.seconds;
  return {};
}

void add_pair(Report& report, const std::string& name, const std::vector<double>& alone,
              const std::vector<double>& with) {
  add_waits(report, name + ".alone", alone, true);
  add_waits(report, name + ".with", with, true);
  report.add(name + ".p99_x", ratio(summarize(with).p99, summarize(alone).p99), "of alone",
             Goal{2, Better::kLower});
}

}  // namespace

Result<void> bench_strangers(const Options& options, const std::string& engine, Report& report) {
  HOLDFAST_TRY(const auto served, serve(options, "strangers", engine, 2'000));
  HOLDFAST_TRY(const std::string key, served->make_key("owner"));
  const pid_t gateway = served->pid_of("gateway");
  const Window window{*served, key, options.seconds(10), gateway};
  Owner warm, alone, with;
  Totals totals;
  double before_mib = 0, with_mib = 0, alone_mib = 0;
  HOLDFAST_CHECKED(window.run(warm, &before_mib));
  for (int round = 0; round < options.count(3, 1); ++round) {
    HOLDFAST_CHECKED(window.run(alone, round == 0 ? &before_mib : &alone_mib));
    HOLDFAST_CHECKED(run_with_strangers(options, window, with, &with_mib, &totals));
    // The remaining connections end, so that the next round begins like the first one.
    sleep_ms(options.quick ? 100 : 6'000);
  }
  if (served->restarts_of("gateway") != 0 || served->pid_of("gateway") != gateway) {
    return Error{Errc::kInternal, "the gateway was started again"};
  }
  const std::string name = "strangers." + engine;
  report.add(name + ".rate", static_cast<double>(totals.connected) / totals.seconds, "1/s",
             std::nullopt, "connections made");
  report.add(name + ".dropped", static_cast<double>(totals.dropped), "in all");
  report.add(name + ".their_cores", static_cast<double>(totals.cpu_ms) / 1000 / totals.seconds,
             "cores");
  add_pair(report, name + ".kept", alone.reused, with.reused);
  add_pair(report, name + ".new", alone.fresh, with.fresh);
  report.add(name + ".memory_before", before_mib, "MiB", std::nullopt, "of the gateway");
  report.add(name + ".memory_with", with_mib, "MiB");
  report.add(name + ".memory_growth", with_mib - before_mib, "MiB", Goal{64, Better::kLower});
  report.add(name + ".memory_peak", peak_mib(gateway), "MiB", Goal{64, Better::kLower},
             "since its start");
  return {};
}

}  // namespace holdfast::bench
