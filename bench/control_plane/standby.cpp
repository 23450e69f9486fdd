// Measures what a standby costs: admissions and commits of a daemon alone and of one whose answers
// wait for a standby, in turns on one machine, both with the listener for other machines.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/control_plane/cases.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

constexpr const char* kManyRequests[] = {"queue.max_requests=10000000",
                                         "queue.max_tenant_requests=10000000",
                                         // A busy machine must not change what is measured.
                                         "ha.silence_ms=10000"};

/// A daemon that listens for other machines.
Result<std::unique_ptr<LocalCluster>> start_listening(const Options& options,
                                                      const std::string& name, int port) {
  ClusterOptions cluster;
  cluster.programs = options.programs;
  cluster.model = options.model;
  cluster.dir = options.scratch + "/" + name;
  cluster.daemon_config.assign(std::begin(kManyRequests), std::end(kManyRequests));
  cluster.daemon_flags = {"--listen", "tcp://127.0.0.1:" + std::to_string(port)};
  auto made = std::make_unique<LocalCluster>(std::move(cluster));
  HOLDFAST_CHECKED(made->start());
  HOLDFAST_CHECKED(made->add_model("{}", 8));
  return made;
}

/// The standby of a daemon, a process that ends with this one.
class StandbyProcess {
 public:
  ~StandbyProcess() { kill_and_reap(pid_); }

  Result<void> start(const Options& options, LocalCluster& primary, int primary_port, int port) {
    const std::string dir = options.scratch + "/standby";
    std::filesystem::create_directories(dir);
    const std::string key = dir + ".key";
    HOLDFAST_TRY(const pid_t made,
                 spawn({options.programs + "/holdfast", "--state", primary.dir(), "keys", "client",
                        "create", "standby", "--role", "standby", "--out", key},
                       dir + ".out"));
    for (int i = 0; i < 500 && !std::filesystem::exists(key); ++i) sleep_ms(10);
    sleep_ms(200);  // the key's row follows its file
    kill_and_reap(made);
    HOLDFAST_TRY(pid_,
                 spawn({options.programs + "/holdfastd", "--state", dir, "--listen",
                        "tcp://127.0.0.1:" + std::to_string(port), "--standby-of",
                        "tcp://127.0.0.1:" + std::to_string(primary_port), "--standby-key", key},
                       dir + ".out"));
    for (int i = 0; i < 6'000; ++i) {
      HOLDFAST_TRY(const std::string text, primary.op("ha.status"));
      if (try_parse_json<json>(text).value("state", "") == "in_step") return {};
      sleep_ms(10);
    }
    return Error{Errc::kTimeout, "the standby is not in step; see " + dir + ".out"};
  }

 private:
  pid_t pid_ = 0;
};

struct Side {
  const char* name;
  LocalCluster* cluster;
  std::vector<double> rates, commits;
};

/// One flood of each side; the median commit is that of the process so far.
Result<void> measure_round(std::int64_t count, std::int64_t first, Side& side) {
  const LoadResult r = closed_load(side.cluster->clients_endpoint(), 2, 128, count,
                                   [&](std::int64_t i) { return ids_submit(first + i, 16); });
  if (r.accepted != count) {
    return Error{Errc::kInternal, std::string(side.name) + ": " + r.first_failure};
  }
  side.rates.push_back(r.rate());
  HOLDFAST_TRY(const double commit, side.cluster->status("/latency/commit/p50_ms"));
  side.commits.push_back(commit);
  return {};
}

}  // namespace

Result<void> bench_standby(const Options& options, Report& report) {
  HOLDFAST_TRY(const auto alone, start_listening(options, "alone", 47'071));
  HOLDFAST_TRY(const auto pair, start_listening(options, "pair", 47'072));
  StandbyProcess standby;
  HOLDFAST_CHECKED(standby.start(options, *pair, 47'072, 47'073));
  Side sides[] = {{"alone", alone.get(), {}, {}}, {"pair", pair.get(), {}, {}}};
  const std::int64_t count = options.count(20'000, 256);
  std::vector<double> ratios;
  for (std::int64_t round = 0; round < options.count(7, 1); ++round) {
    for (Side& side : sides) {
      HOLDFAST_CHECKED(measure_round(count, round * count, side));
    }
    ratios.push_back(sides[1].rates.back() / sides[0].rates.back());
  }
  for (const Side& side : sides) {
    const std::string name = std::string("standby.") + side.name;
    report.add(name + ".rate_128", summarize(side.rates), "1/s");
    report.add(name + ".commit_ms", side.commits.back(), "ms");
  }
  report.add("standby.rate_ratio", summarize(ratios), "x");
  report.add("standby.commit_ratio", sides[1].commits.back() / sides[0].commits.back(), "x",
             Goal{1.5, Better::kLower}, "median commit, groups as they come");
  HOLDFAST_TRY(const std::string end, pair->op("ha.status"));
  if (try_parse_json<json>(end).value("state", "") != "in_step") {
    report.problem("standby: it was lost meanwhile: " + end);
  }
  return {};
}

}  // namespace holdfast::bench
