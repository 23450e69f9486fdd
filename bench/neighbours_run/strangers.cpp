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

/// An owner's requests on a kept connection and on a new one each time.
struct Owner {
  std::vector<double> kept, fresh;
};

struct Window {
  const Served& served;
  std::string key;
  double seconds;
  pid_t gateway;

  /// Listens to the owner for so long; the gateway's most memory meanwhile goes into `mib`.
  Result<void> run(Owner& owner, double* mib) const {
    Asker kept(served.port(), key, true, kPauseMs);
    Asker fresh(served.port(), key, false, kPauseMs);
    const std::int64_t until = now_us() + static_cast<std::int64_t>(seconds * 1e6);
    while (now_us() < until) {
      *mib = std::max(*mib, rss_mib(gateway));
      sleep_ms(50);
    }
    HF_CHECKED(collect(kept.stop(), &owner.kept));
    return collect(fresh.stop(), &owner.fresh);
  }
};

/// What the strangers themselves did, summed over the rounds.
struct Tally {
  std::int64_t connected = 0, dropped = 0, cpu_ms = 0;
  double seconds = 0;
};

Result<void> beside_strangers(const Options& options, const Window& window, Owner& owner,
                              double* mib, Tally* tally) {
  const int count = options.count(8'192, 512);
  HF_TRY(const Crowd crowd, Crowd::start(window.served.port(), count, options.scratch + "/crowd"));
  const std::int64_t until = now_us() + 60'000'000;
  while (crowd.state().connected < count) {
    if (now_us() > until) return Error{Errc::kTimeout, "strangers cannot connect"};
    *mib = std::max(*mib, rss_mib(window.gateway));
    sleep_ms(20);
  }
  const CrowdState before = crowd.state();
  const std::int64_t cpu = cpu_ms(crowd.pid());
  HF_CHECKED(window.run(owner, mib));
  const CrowdState after = crowd.state();
  tally->connected += after.connected - before.connected;
  tally->dropped += after.dropped - before.dropped;
  tally->cpu_ms += cpu_ms(crowd.pid()) - cpu;
  tally->seconds += window.seconds;
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
  HF_TRY(const auto served, serve(options, "strangers", engine, 2'000));
  HF_TRY(const std::string key, served->make_key("owner"));
  const pid_t gateway = served->pid_of("gateway");
  const Window window{*served, key, options.seconds(10), gateway};
  Owner warm, alone, with;
  Tally tally;
  double before_mib = 0, with_mib = 0, alone_mib = 0;
  HF_CHECKED(window.run(warm, &before_mib));
  for (int round = 0; round < options.count(3, 1); ++round) {
    HF_CHECKED(window.run(alone, round == 0 ? &before_mib : &alone_mib));
    HF_CHECKED(beside_strangers(options, window, with, &with_mib, &tally));
    // Those that are left have gone, and the next round begins as the first one did.
    sleep_ms(options.quick ? 100 : 6'000);
  }
  if (served->restarts_of("gateway") != 0 || served->pid_of("gateway") != gateway) {
    return Error{Errc::kInternal, "the gateway was started again"};
  }
  const std::string name = "strangers." + engine;
  report.add(name + ".rate", static_cast<double>(tally.connected) / tally.seconds, "1/s",
             std::nullopt, "connections made");
  report.add(name + ".dropped", static_cast<double>(tally.dropped), "in all");
  report.add(name + ".their_cores", static_cast<double>(tally.cpu_ms) / 1000 / tally.seconds,
             "cores");
  add_pair(report, name + ".kept", alone.kept, with.kept);
  add_pair(report, name + ".new", alone.fresh, with.fresh);
  report.add(name + ".memory_before", before_mib, "MiB", std::nullopt, "of the gateway");
  report.add(name + ".memory_with", with_mib, "MiB");
  report.add(name + ".memory_growth", with_mib - before_mib, "MiB", Goal{64, Better::kLower});
  report.add(name + ".memory_peak", peak_mib(gateway), "MiB", Goal{64, Better::kLower},
             "since its start");
  return {};
}

}  // namespace holdfast::bench
