#include "bench/soak_run/soak.h"

#include "bench/lib/load.h"
#include "bench/soak_run/soak_sum.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace holdfast::bench {
namespace {

constexpr int kWorkers = 2;
constexpr int kSlots = 16;
constexpr int kStepUs = 5000;
constexpr double kTokensEach = 65;         // the prefill's step and 64 tokens
constexpr std::int64_t kTokens = 64;       // of each request
constexpr double kCalibrateS = 20;         // least seconds of measuring the real engine's rate
constexpr double kSlopesCountFromS = 600;  // seconds of a life: below, caches still fill

struct Sample {
  double at_s = 0;
  int incarnation = 0;  // of the daemon
  double age_s = 0;     // of the daemon
  double rss = 0, descriptors = 0, wal = 0, queue = 0;
};

double wal_bytes(const std::string& state_dir) {
  std::error_code absent;
  const auto size = std::filesystem::file_size(state_dir + "/control.db-wal", absent);
  return absent ? 0 : static_cast<double>(size);
}

/// Kills in turn: worker, worker, helper, and each sixth time the daemon, unless it is spared.
class Killer {
 public:
  Killer(LocalCluster& cluster, std::string engine)
      : cluster_(cluster), engine_(std::move(engine)) {}
  Result<void> next(bool spare_daemon) {
    const int turn = kills_++ % 6;
    if (turn == 5 && !spare_daemon) {
      cluster_.kill_daemon();
      ++daemon_kills_;
      daemon_since_us_ = now_us();
      return cluster_.start_daemon();
    }
    if (turn % 3 == 2) return cluster_.restart_ingress();
    const std::string key = "w" + std::to_string(turn % 3);
    cluster_.kill_worker(key);
    return cluster_.start_worker(key, {}, engine_);
  }
  int kills() const { return kills_; }
  int daemon_kills() const { return daemon_kills_; }
  double daemon_age_s() const { return static_cast<double>(now_us() - daemon_since_us_) / 1e6; }

 private:
  LocalCluster& cluster_;
  std::string engine_;
  int kills_ = 0;
  int daemon_kills_ = 0;
  std::int64_t daemon_since_us_ = now_us();
};

/// The samples of the daemon that lived longest, without the first fifth of its life, while caches
/// fill.
std::vector<Sample> longest_life(const std::vector<Sample>& samples) {
  std::map<int, std::vector<Sample>> lives;
  for (const Sample& s : samples) lives[s.incarnation].push_back(s);
  std::vector<Sample> best;
  for (const auto& [incarnation, life] : lives) {
    if (life.size() > best.size()) best = life;
  }
  const double settled_s = best.empty() ? 0 : best.back().age_s / 5;
  std::erase_if(best, [&](const Sample& s) { return s.age_s < settled_s; });
  return best;
}

double slope_per_hour(const std::vector<Sample>& life, double Sample::*what) {
  std::vector<std::pair<double, double>> points;
  for (const Sample& s : life) points.emplace_back(s.at_s, s.*what);
  return slope(points) * 3600;
}

double largest(const std::vector<Sample>& samples, double Sample::*what) {
  double most = 0;
  for (const Sample& s : samples) most = std::max(most, s.*what);
  return most;
}

Result<std::unique_ptr<LocalCluster>> start_soak_cluster(const SoakOptions& options) {
  ClusterOptions cluster_options;
  cluster_options.programs = options.programs;
  cluster_options.model = options.model;
  cluster_options.dir = options.state.empty() ? options.scratch + "/soak" : options.state;
  // Each start reads its queue in many batches, as a start with a very long queue does.
  cluster_options.daemon_config = {"queue.read_requests=4"};
  auto cluster = std::make_unique<LocalCluster>(std::move(cluster_options));
  HOLDFAST_CHECKED(cluster->start());
  const std::string fake =
      R"({"slots":16,"pages":1024,"prefill_chunk":4096,"step_us":)" + std::to_string(kStepUs) + "}";
  HOLDFAST_CHECKED(cluster->add_model(options.engine == "fake" ? fake : "{}", kSlots, 512));
  for (int i = 0; i < kWorkers; ++i) {
    HOLDFAST_CHECKED(cluster->start_worker("w" + std::to_string(i), {}, options.engine));
  }
  HOLDFAST_CHECKED(cluster->wait_ready(kWorkers));
  return cluster;
}

/// Requests a second that the workers can do: of the fake engine by its steps, of the real one
/// measured with twice as many requests as slots.
Result<double> capacity_of(const SoakOptions& options, LocalCluster& cluster) {
  if (options.engine == "fake") return kWorkers * kSlots * 1e6 / kStepUs / kTokensEach;
  HOLDFAST_TRY(auto client, cluster.connect());
  std::mutex mutex;
  std::int64_t ended = 0, number = 0;
  const std::int64_t begin = now_us();
  const auto elapsed = [&] { return static_cast<double>(now_us() - begin) / 1e6; };
  std::int64_t open = 0;
  while (elapsed() < kCalibrateS) {
    const std::int64_t free = [&] {
      const std::lock_guard lock(mutex);
      return 2 * kWorkers * kSlots - (open - ended);
    }();
    for (std::int64_t i = 0; i < free; ++i, ++open) {
      const auto answer =
          client->submit(client::Principal::local(), text_submit(1'000'000 + number++, kTokens));
      const auto* accepted = std::get_if<wire::Accepted>(&answer);
      if (accepted == nullptr) {
        return Error{Errc::kInternal,
                     "soak: calibration: " + std::get<client::Failure>(answer).message};
      }
      client::StreamHandler handler;
      handler.on_fin = [&](const wire::RequestInfo&) {
        const std::lock_guard lock(mutex);
        ++ended;
      };
      handler.on_failure = [&](const client::Failure&) {
        const std::lock_guard lock(mutex);
        ++ended;
      };
      client->open_stream(client::AllTenants::local(), accepted->info.request_id, {},
                          std::move(handler));
    }
    sleep_ms(5);
  }
  const double seconds = elapsed();
  client.reset();  // its thread ends, so that nothing counts any more
  if (ended == 0) return Error{Errc::kInternal, "soak: calibration: no request ended"};
  return static_cast<double>(ended) / seconds;
}

void report_load(const SteadyLoad::Counts& counts, Report& report) {
  const auto submitted = static_cast<double>(counts.submitted);
  const double good = static_cast<double>(counts.succeeded - counts.wrong);
  report.add("soak.submitted", submitted, "requests");
  report.add("soak.succeeded", static_cast<double>(counts.succeeded), "requests");
  report.add("soak.availability", submitted == 0 ? 0 : 100 * good / submitted, "%",
             Goal{100, Better::kHigher});
  report.add("soak.errors", submitted - good, "requests", Goal{0, Better::kLower});
  report.add("soak.other_tokens", static_cast<double>(counts.wrong), "requests",
             Goal{0, Better::kLower}, "against the first run of the same request");
  const Summary took = summarize(counts.took_ms);
  report.add("soak.request_ms", took, "ms");
  report.add("soak.p99_over_p50", took.p50 == 0 ? 0 : took.p99 / took.p50, "",
             Goal{3, Better::kLower});
  report.add("soak.refused", static_cast<double>(counts.refused), "requests");
  if (!counts.first_problem.empty()) report.problem("soak: " + counts.first_problem);
  if (counts.succeeded + counts.failed + counts.refused != counts.submitted) {
    report.problem(
        "soak: " +
        std::to_string(counts.submitted - counts.succeeded - counts.failed - counts.refused) +
        " requests never ended");
  }
}

void report_slopes(const std::vector<Sample>& samples, Report& report) {
  const std::vector<Sample> life = longest_life(samples);
  const double life_s = life.empty() ? 0 : life.back().age_s;
  const auto goal = [&](double value) {
    return life_s >= kSlopesCountFromS ? std::optional<Goal>(Goal{value, Better::kLower})
                                       : std::nullopt;
  };
  report.add("soak.slopes_over", life_s, "s", std::nullopt,
             "life of the daemon that lived longest");
  constexpr double kMib = 1 << 20;
  report.add("soak.rss_max", largest(samples, &Sample::rss) / kMib, "MiB");
  report.add("soak.rss_slope", slope_per_hour(life, &Sample::rss) / kMib, "MiB/h", goal(4));
  report.add("soak.descriptors_max", largest(samples, &Sample::descriptors), "files");
  report.add("soak.descriptors_slope", slope_per_hour(life, &Sample::descriptors), "files/h",
             goal(1));
  report.add("soak.wal_max", largest(samples, &Sample::wal) / kMib, "MiB",
             Goal{64, Better::kLower});
  report.add("soak.wal_slope", slope_per_hour(life, &Sample::wal) / kMib, "MiB/h", goal(4));
  report.add("soak.queue_max", largest(samples, &Sample::queue), "requests");
  report.add("soak.queue_slope", slope_per_hour(life, &Sample::queue), "1/h", goal(10));
}

}  // namespace

Result<void> run_soak(const SoakOptions& options, Report& report) {
  HOLDFAST_TRY(const auto cluster, start_soak_cluster(options));
  HOLDFAST_TRY(const double capacity, capacity_of(options, *cluster));
  HOLDFAST_TRY(auto client, cluster->connect());
  FirstTokens first;
  if (!options.state.empty()) {
    HOLDFAST_TRY(first, read_first_tokens(options.state));
  }
  report.fact("engine", options.engine);
  report.fact("share", std::to_string(options.share));
  report.fact("kill_every_s", std::to_string(options.kill_every_s));
  report.add("soak.rate", options.share * capacity, "1/s", std::nullopt, "of requests");
  SteadyLoad load(std::move(client), options.share * capacity, std::move(first));
  Killer killer(*cluster, options.engine);
  const CpuTicks cpu = read_cpu_ticks();
  const double seconds = options.hours * 3600;
  const std::int64_t begin = now_us();
  const auto elapsed = [&] { return static_cast<double>(now_us() - begin) / 1e6; };
  std::vector<Sample> samples;
  std::set<std::string> died;  // without a kill: a crash, or lack of memory
  double next_kill = options.kill_every_s;
  for (double next_sample = 1; elapsed() < seconds; next_sample += 1) {
    sleep_ms(1000 * (next_sample - elapsed()));
    if (options.kill_every_s > 0 && elapsed() >= next_kill) {
      // In the second half the daemon lives on, so that growth in it shows.
      HOLDFAST_CHECKED(killer.next(elapsed() > seconds / 2));
      next_kill += options.kill_every_s;
    }
    for (const std::string& death : cluster->unexpected_deaths()) died.insert(death);
    samples.push_back({elapsed(), killer.daemon_kills(), killer.daemon_age_s(),
                       static_cast<double>(rss_bytes(cluster->daemon())),
                       static_cast<double>(open_descriptors(cluster->daemon())),
                       wal_bytes(cluster->dir()), static_cast<double>(load.open())});
  }
  report_load(load.finish(60), report);
  report_slopes(samples, report);
  report.add("soak.seconds", elapsed(), "s");
  report.add("soak.unexpected_deaths", static_cast<double>(died.size()), "processes",
             Goal{0, Better::kLower});
  for (const std::string& death : died) report.problem("soak: " + death);
  report.add("soak.kills", killer.kills(), "processes");
  report.add("soak.daemon_kills", killer.daemon_kills(), "processes");
  report.add("soak.busy", busy_percent(cpu, read_cpu_ticks()), "%");
  report.add("soak.steal", steal_percent(cpu, read_cpu_ticks()), "%");
  if (options.state.empty()) return {};
  HOLDFAST_CHECKED(write_first_tokens(options.state, load.first_tokens()));
  return options.sum.empty() ? Result<void>() : add_to_sum(report, options.sum);
}

}  // namespace holdfast::bench
