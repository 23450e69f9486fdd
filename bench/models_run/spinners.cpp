// Loads, unloads and serves on a machine on which others use every core. No worker is disturbed, so
// every one that is given up, every load that fails and every request that is lost is our fault.
#include <sys/wait.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "bench/models_run/cases.h"

namespace holdfast::bench {
namespace {

constexpr int kHolders = 2;         // workers
constexpr std::int64_t kKinds = 8;  // kinds of requests for each model
constexpr std::int64_t kRequestTokens = 16;
constexpr int kPauseMs = 4000;  // at most, between two loads or unloads

struct Served {
  std::string name, path;
  std::vector<std::vector<wire::TokenId>> ids;  // of each kind, from an undisturbed run
};

struct Counts {
  std::atomic<std::int64_t> requested{0}, lost{0}, other{0}, loads_requested{0},
      unloads_requested{0};
  std::mutex mutex;
  std::string first;  // the first failure
  void note(const std::string& what) {
    const std::lock_guard lock(mutex);
    if (first.empty()) first = what;
  }
};

/// A file of random weights in a known shape.
Result<std::string> synthesize(const Options& options, const std::string& shape,
                               const std::string& type) {
  const std::string path = options.scratch + "/" + shape + ".gguf";
  HOLDFAST_TRY(const pid_t pid,
               spawn({options.programs + "/holdfast", "synth", shape, path, "--type", type},
                     options.scratch + "/synth.out"));
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0) return Error{Errc::kIo, "holdfast synth " + shape + " failed"};
  return path;
}

/// The demo model and two shapes, each much larger than the one before; tiny ones in a quick run.
Result<std::vector<Served>> make_models(const Options& options) {
  HOLDFAST_TRY(const std::string second, options.quick
                                             ? synthesize(options, "tiny", "Q8_0")
                                             : synthesize(options, "smollm2-135m", "Q8_0"));
  HOLDFAST_TRY(const std::string third, options.quick
                                            ? synthesize(options, "test-llama", "Q8_0")
                                            : synthesize(options, "qwen2.5-0.5b", "Q4_0"));
  return std::vector<Served>{{"a", options.model, {}}, {"b", second, {}}, {"c", third, {}}};
}

Result<void> collect_reference(LocalCluster& cluster, const Options& options,
                               std::vector<Served>& models) {
  HOLDFAST_TRY(const auto client, cluster.connect());
  for (Served& model : models) {
    HOLDFAST_CHECKED(add_model(cluster, options, {model.name, "{}", 4, 256, true, model.path}));
    HOLDFAST_CHECKED(wait_state(cluster, model.name, "ready", 600'000));
    for (std::int64_t kind = 0; kind < kKinds; ++kind) {
      RequestResult result = ask(*client, model.name, kind, kRequestTokens);
      if (!result.failure.empty())
        return Error{Errc::kInternal, model.name + ": " + result.failure};
      model.ids.push_back(std::move(result.ids));
    }
  }
  return {};
}

/// Requests one model until the time is over.
void use(LocalCluster& cluster, const Served& model, unsigned seed, std::int64_t until_us,
         Counts& counts) {
  auto client = cluster.connect();
  if (!client) return counts.note(client.error().what);
  std::mt19937 random(seed);
  while (now_us() < until_us) {
    const auto kind = static_cast<std::int64_t>(random() % kKinds);
    const RequestResult result = ask(**client, model.name, kind, kRequestTokens);
    ++counts.requested;
    if (!result.failure.empty()) {
      ++counts.lost;
      counts.note("model " + model.name + ": " + result.failure);
    } else if (result.ids != model.ids[static_cast<std::size_t>(kind)]) {
      ++counts.other;
      counts.note("model " + model.name + ": other tokens than undisturbed");
    }
    sleep_ms(static_cast<double>(random() % 200));
  }
}

/// Unloads and loads models at random. A request that waits for an unloaded one loads it again.
Result<void> load_and_unload(LocalCluster& cluster, const std::vector<Served>& models,
                             std::int64_t until_us, Counts& counts) {
  std::mt19937 random(7);
  while (now_us() < until_us) {
    const std::string& name = models[random() % models.size()].name;
    HOLDFAST_CHECKED(operate(cluster, "models.unload", name));
    ++counts.unloads_requested;
    sleep_ms(static_cast<double>(random() % kPauseMs));
    HOLDFAST_CHECKED(operate(cluster, "models.load", name));
    ++counts.loads_requested;
    sleep_ms(static_cast<double>(random() % kPauseMs));
  }
  return {};
}

Result<double> loads_that(const LocalCluster& cluster, const std::string& state) {
  HOLDFAST_TRY(const auto count,
               query_numbers(cluster.dir(),
                             "SELECT count(*) FROM transitions WHERE subject='load' AND"
                             " to_state='" +
                                 state + "'"));
  return count.at(0);
}

Result<void> report_counts(LocalCluster& cluster, const Counts& counts, Report& report) {
  HOLDFAST_TRY(const double lost, cluster.status("/counters/workers_lost"));
  HOLDFAST_TRY(const double suspicions, cluster.status("/counters/suspicions"));
  HOLDFAST_TRY(const double well_again, cluster.status("/counters/false_suspicions"));
  HOLDFAST_TRY(const double ready, loads_that(cluster, "ready"));
  HOLDFAST_TRY(const double failed, loads_that(cluster, "failed"));
  const std::vector<std::string> deaths = cluster.unexpected_deaths();
  for (const std::string& death : deaths) report.problem("spinners: " + death);
  const Goal none{0, Better::kLower};
  const double given_up = lost - static_cast<double>(deaths.size());
  report.add("spinners.workers_given_up", given_up, "workers", none, "whose process lives");
  report.add("spinners.loads_failed", failed, "loads", none);
  report.add("spinners.requests_lost", static_cast<double>(counts.lost.load()), "requests", none);
  report.add("spinners.other_text", static_cast<double>(counts.other.load()), "requests", none,
             "against the same request before, undisturbed");
  report.add("spinners.loads", ready, "loads", std::nullopt, "real engine");
  report.add("spinners.requests", static_cast<double>(counts.requested.load()), "requests");
  report.add("spinners.unloads_asked", static_cast<double>(counts.unloads_requested.load()),
             "times");
  report.add("spinners.suspicions", suspicions, "times", std::nullopt, "no new work, nothing lost");
  report.add("spinners.well_again", well_again, "times");
  if (given_up > 0) report.problem("spinners: a worker was given up that lives");
  if (failed > 0) report.problem("spinners: a load failed");
  if (!counts.first.empty()) report.problem("spinners: " + counts.first);
  if (ready == 0 || counts.requested == 0) report.problem("spinners: nothing was done");
  return {};
}

}  // namespace

Result<void> bench_spinners(const Options& options, Report& report) {
  HOLDFAST_TRY(std::vector<Served> models, make_models(options));
  HOLDFAST_TRY(const auto cluster, start_cluster(options, "spinners"));
  for (int i = 0; i < kHolders; ++i) {
    HOLDFAST_CHECKED(cluster->start_worker("w" + std::to_string(i), {"--threads", "1"}, "model"));
  }
  HOLDFAST_CHECKED(collect_reference(*cluster, options, models));
  Counts counts;
  const CpuTicks cpu = read_cpu_ticks();
  const double minutes = options.quick ? 0.1 : options.minutes;
  const std::int64_t until = now_us() + static_cast<std::int64_t>(minutes * 60e6);
  Result<void> loaded;
  {
    const Spinners spinners(options.spinners);
    std::vector<std::thread> clients;
    for (unsigned i = 0; i < models.size(); ++i) {
      clients.emplace_back([&, i] { use(*cluster, models[i], i, until, counts); });
    }
    loaded = load_and_unload(*cluster, models, until, counts);
    for (std::thread& thread : clients) thread.join();
  }
  HOLDFAST_CHECKED(loaded);
  report.add("spinners.minutes", minutes, "min");
  report.add("spinners.processes", options.spinners, "processes");
  report.add("spinners.busy", busy_percent(cpu, read_cpu_ticks()), "%");
  return report_counts(*cluster, counts, report);
}

}  // namespace holdfast::bench
