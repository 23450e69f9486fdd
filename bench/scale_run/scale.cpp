#include "bench/scale_run/scale.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <vector>

#include "shared/base/check.h"

namespace holdfast::bench {
namespace {

constexpr double kDispatchGoalMs = 5;

enum class Kind : std::uint8_t { kRequest, kTokens, kSigns };
struct Arrival {
  double at_us = 0;
  Kind kind = Kind::kRequest;
  int subject = 0;  // a model, or a node
};

/// Events of `seconds`, in order of time: requests at random, tokens and signs of each node evenly.
std::vector<Arrival> arrivals_of(const ScaleOptions& options) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> gap(options.requests_s / 1e6);
  std::uniform_int_distribution<int> model(0, options.models - 1);
  std::vector<Arrival> out;
  const double end_us = options.seconds * 1e6;
  for (double at = gap(random); at < end_us; at += gap(random)) {
    out.push_back({at, Kind::kRequest, model(random)});
  }
  const auto evenly = [&](Kind kind, double period_us) {
    for (int node = 0; node < options.nodes; ++node) {
      for (double at = period_us * node / options.nodes; at < end_us; at += period_us) {
        out.push_back({at, kind, node});
      }
    }
  };
  if (options.token_groups_s > 0) evenly(Kind::kTokens, 1e6 / options.token_groups_s);
  evenly(Kind::kSigns, 1e6);
  std::sort(out.begin(), out.end(),
            [](const Arrival& a, const Arrival& b) { return a.at_us < b.at_us; });
  return out;
}

/// Time that this thread has had a processor, in microseconds: a core of its own would give it the
/// same, whatever else this machine does.
std::int64_t processor_us() {
  timespec now{};
  CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1'000;
}

/// One core that takes events in order: an event waits until those before it are done.
class OneCore {
 public:
  OneCore(ScaleCluster& cluster, std::int64_t begin_us) : cluster_(cluster), begin_us_(begin_us) {}

  void take(const Arrival& arrival) {
    const double start_us = std::max(arrival.at_us, free_us_);
    cluster_.set_time(begin_us_ + static_cast<std::int64_t>(start_us));
    const std::int64_t before_us = processor_us();
    bool dispatched = false;
    if (arrival.kind == Kind::kRequest) dispatched = cluster_.submit(arrival.subject);
    if (arrival.kind == Kind::kTokens) cluster_.tokens_of(arrival.subject);
    if (arrival.kind == Kind::kSigns) cluster_.signs_of(arrival.subject);
    const auto took_us = static_cast<double>(processor_us() - before_us);
    free_us_ = start_us + took_us;
    if (arrival.kind == Kind::kRequest) count_request(arrival, took_us, dispatched);
    if (arrival.kind == Kind::kTokens) tokens_us.push_back(took_us);
    if (arrival.kind == Kind::kSigns) signs_us.push_back(took_us);
    busy_us += took_us;
  }

  std::vector<double> dispatch_ms;  // from the arrival until the dispatch is on its way
  std::vector<double> submit_us, finish_us, tokens_us, signs_us;  // each by itself
  double busy_us = 0;
  int waited = 0;  // requests that found no free slot

 private:
  void count_request(const Arrival& arrival, double took_us, bool dispatched) {
    submit_us.push_back(took_us);
    if (dispatched) dispatch_ms.push_back((free_us_ - arrival.at_us) / 1e3);
    waited += !dispatched;
    const std::int64_t before_us = processor_us();
    cluster_.finish_oldest();
    finish_us.push_back(static_cast<double>(processor_us() - before_us));
    free_us_ += finish_us.back();
    busy_us += finish_us.back();
  }

  ScaleCluster& cluster_;
  const std::int64_t begin_us_;
  double free_us_ = 0;
};

}  // namespace

void run_scale(const ScaleOptions& options, Report& report) {
  ScaleCluster cluster(options);
  const std::int64_t empty_bytes = rss_bytes(getpid());
  const std::int64_t begin_us = processor_us();
  cluster.build();
  report.add("build", static_cast<double>(processor_us() - begin_us) / 1e6, "s", std::nullopt,
             "joins of all nodes, all loads");
  report.add("loads", static_cast<double>(cluster.loads()), "loads");
  const std::int64_t built_bytes = rss_bytes(getpid());
  for (int i = 0; i < options.streams; ++i) (void)cluster.submit(i % options.models);
  const auto running = static_cast<double>(cluster.running());
  report.add("streams", running, "streams");
  if (cluster.running() != static_cast<std::size_t>(options.streams)) {
    report.problem("not all streams run: raise --slots");
  }
  constexpr double kMiB = 1 << 20;
  report.add("memory.nodes", static_cast<double>(built_bytes - empty_bytes) / kMiB, "MiB");
  report.add("memory.streams", static_cast<double>(rss_bytes(getpid()) - built_bytes) / kMiB,
             "MiB");
  constexpr std::int64_t kLaterUs = 1'000'000'000;
  OneCore core(cluster, kLaterUs);
  for (const Arrival& arrival : arrivals_of(options)) core.take(arrival);
  report.add("dispatch", summarize(core.dispatch_ms), "ms", "p99",
             Goal{kDispatchGoalMs, Better::kLower});
  report.add("core_busy", core.busy_us / (options.seconds * 1e4), "%");
  report.add("waited", core.waited, "requests", std::nullopt, "that found no free slot");
  report.add("step.submit", summarize(core.submit_us), "us");
  report.add("step.finish", summarize(core.finish_us), "us");
  report.add("step.tokens", summarize(core.tokens_us), "us");
  report.add("step.signs", summarize(core.signs_us), "us");
  report.add("memory.all", static_cast<double>(rss_bytes(getpid())) / kMiB, "MiB");
}

}  // namespace holdfast::bench
