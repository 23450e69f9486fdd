// Measures the disk alone, SQLite alone, and durable admissions with the latency that clients see.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "bench/control_plane/cases.h"
#include "bench/lib/disk.h"

namespace holdfast::bench {

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = {
      {"disk", &bench_disk},       {"admission", &bench_admission}, {"tokens", &bench_tokens},
      {"restart", &bench_restart}, {"failures", &bench_failures},   {"cancel", &bench_cancel},
      {"burst", &bench_burst},     {"suspicion", &bench_suspicion}, {"standby", &bench_standby},
  };
  return cases;
}

EngineLimits limits_of(const Options& options) {
  if (options.engine == "fake") return {};
  return {480, 512, {"--threads", "1"}};
}

Result<void> bench_disk(const Options& options, Report& report) {
  HOLDFAST_TRY(const Summary sync, measure_sync(options.scratch, options.count(400, 20)));
  report.add("disk.write_fdatasync_ms", sync, "ms");
  for (const int group : {1, 128}) {
    const std::string name = "bare-" + std::to_string(group);
    HOLDFAST_TRY(const BareSqlite bare,
                 measure_bare_sqlite(options.scratch + "/" + name, group, options.seconds(4)));
    report.add("disk.bare_sqlite_rate_" + std::to_string(group), bare.rows_per_s, "1/s");
    report.add("disk.bare_sqlite_commit_ms_" + std::to_string(group), bare.commit_ms, "ms");
    std::filesystem::remove_all(options.scratch + "/" + name);
  }
  return {};
}

namespace {

Result<void> check(const LoadResult& result, Report& report, const std::string& name,
                   std::int64_t count) {
  if (result.accepted != count) {
    report.problem(name + ": " + std::to_string(count - result.accepted) + " of " +
                   std::to_string(count) + " were not accepted: " + result.first_failure);
  }
  if (result.accepted == 0) return Error{Errc::kInternal, name + ": nothing was accepted"};
  return {};
}

/// Rate of SQLite alone at the time of this run: disks of virtual machines vary by the minute.
Result<double> bare_rate(const Options& options, int group) {
  const std::string dir = options.scratch + "/bare-beside";
  HOLDFAST_TRY(const BareSqlite bare, measure_bare_sqlite(dir, group, options.seconds(2)));
  std::filesystem::remove_all(dir);
  return bare.rows_per_s;
}

Result<void> measure_flood(const Options& options, Report& report, LocalCluster& cluster, bool text,
                           double& rate) {
  const std::string name = text ? "admission.text_rate_128" : "admission.rate_128";
  const std::int64_t count = options.count(20'000, 256);
  std::vector<double> rates;
  std::vector<double> bare;
  std::vector<double> latency;
  double daemon_ms = 0;
  double client_ms = 0;
  double groups = 0;
  std::int64_t number = text ? 1'000'000 : 0;
  for (int round = 0; round < options.count(3, 1); ++round) {
    HOLDFAST_TRY(const double sqlite_rate, bare_rate(options, 128));
    bare.push_back(sqlite_rate);
    HOLDFAST_TRY(const double commits, cluster.status("/storage/commits"));
    const double daemon_before = static_cast<double>(cpu_ms(cluster.daemon()));
    const double client_before = static_cast<double>(cpu_ms(getpid()));
    LoadResult r = closed_load(cluster.clients_endpoint(), 2, 128, count, [&](std::int64_t i) {
      return text ? text_submit(number + i, 16) : ids_submit(number + i, 16);
    });
    daemon_ms += static_cast<double>(cpu_ms(cluster.daemon())) - daemon_before;
    client_ms += static_cast<double>(cpu_ms(getpid())) - client_before;
    HOLDFAST_TRY(const double commits_after, cluster.status("/storage/commits"));
    groups += commits_after - commits;
    HOLDFAST_CHECKED(check(r, report, name, count));
    number += count;
    rates.push_back(r.rate());
    latency.insert(latency.end(), r.latency_ms.begin(), r.latency_ms.end());
  }
  rate = summarize(rates).p50;
  const double reference = summarize(bare).p50;
  const Goal goal{std::min(20'000.0, 0.7 * reference), Better::kHigher};
  report.add(name, rate, "1/s", goal, "goal: 20000, or 70 % of bare SQLite beside it");
  report.add(name + ".of_bare_sqlite", 100 * rate / reference, "%");
  report.add(name + ".latency_ms", summarize(latency), "ms");
  const auto total = static_cast<double>(latency.size());
  report.add(name + ".group", total / std::max(groups, 1.0), "requests");
  report.add(name + ".daemon_cpu_us", 1000 * daemon_ms / total, "us");
  report.add(name + ".client_cpu_us", 1000 * client_ms / total, "us");
  return {};
}

/// Latency at a fixed rate below the limit: what clients see without floods.
Result<void> measure_half_load(const Options& options, Report& report, LocalCluster& cluster,
                               double rate) {
  std::int64_t first = 2'000'000;
  PacedLoad load(cluster.clients_endpoint(), rate / 2,
                 [&](std::int64_t i) { return ids_submit(first + i, 16); });
  sleep_ms(options.seconds(5) * 1000);
  const LoadResult result = load.stop();
  HOLDFAST_CHECKED(check(result, report, "admission.half_load", result.accepted + result.refused));
  report.add("admission.half_load_rate", result.rate(), "1/s");
  report.add("admission.half_load_latency_ms", summarize(result.latency_ms), "ms", "p99",
             Goal{30, Better::kLower});
  return {};
}

}  // namespace

Result<void> bench_admission(const Options& options, Report& report) {
  // No worker: admitted requests wait, so that admission alone is measured.
  HOLDFAST_TRY(const auto cluster, start_cluster(options, "admission",
                                                 {"queue.max_requests=10000000",
                                                  "queue.max_tenant_requests=10000000"}));
  HOLDFAST_CHECKED(cluster->add_model("{}", 8));
  const std::int64_t alone = options.count(1000, 20);
  HOLDFAST_TRY(const double bare_alone, bare_rate(options, 1));
  const LoadResult one = closed_load(cluster->clients_endpoint(), 1, 1, alone,
                                     [](std::int64_t i) { return ids_submit(3'000'000 + i, 16); });
  HOLDFAST_CHECKED(check(one, report, "admission.rate_1", alone));
  report.add("admission.rate_1", one.rate(), "1/s",
             Goal{std::min(200.0, 0.7 * bare_alone), Better::kHigher},
             "one client alone; goal: 200, or near what SQLite alone does");
  report.add("admission.rate_1.of_bare_sqlite", 100 * one.rate() / bare_alone, "%");
  report.add("admission.latency_1_ms", summarize(one.latency_ms), "ms");
  double rate = 0;
  HOLDFAST_CHECKED(measure_flood(options, report, *cluster, /*text=*/false, rate));
  HOLDFAST_CHECKED(measure_half_load(options, report, *cluster, rate));
  double text_rate = 0;
  return measure_flood(options, report, *cluster, /*text=*/true, text_rate);
}

}  // namespace holdfast::bench
