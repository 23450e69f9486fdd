// Models that share a device without memory for all of them.
#include <atomic>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "bench/models_run/cases.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

/// Bytes of one load of this file, as the daemon reserves them.
Result<double> reserved_bytes(const Options& options, const ModelSpec& spec) {
  HOLDFAST_TRY(const auto cluster, start_patient_cluster(options, "measure"));
  HOLDFAST_CHECKED(add_model(*cluster, options, spec));
  HOLDFAST_CHECKED(cluster->start_worker("w0"));
  HOLDFAST_CHECKED(cluster->wait_ready(1));
  HOLDFAST_TRY(const json model, show_model(*cluster, spec.name));
  return model["loads"][0].value("reserved_bytes", 0.0);
}

/// Flags of a worker whose device has memory for `loads` loads under models.memory_percent.
std::vector<std::string> device_for(double bytes, double loads) {
  const auto total = static_cast<std::int64_t>(bytes * loads / 0.9);
  return {"--fake-device", json{{"memory_bytes", total}}.dump()};
}

struct Pair {
  std::string in, out;
};

/// True if a model that waits says that its device has no room now.
bool says_why_it_waits(const json& model) {
  const json device = model["devices"].at(0);
  return model["loads"].empty() && device.value("verdict", "") == "no room now" &&
         device.value("needed_bytes", 0.0) > device.value("free_bytes", 0.0);
}

/// Finds which of the two was admitted; the other must wait and say for what.
Result<Pair> settle(LocalCluster& cluster, Report& report) {
  const std::int64_t until = now_us() + 30'000'000;
  while (now_us() < until) {
    HOLDFAST_TRY(const json a, show_model(cluster, "a"));
    HOLDFAST_TRY(const json b, show_model(cluster, "b"));
    const bool a_in = a.value("state", "") == "ready";
    const bool b_in = b.value("state", "") == "ready";
    if (a_in && b_in) {
      report.problem("collide: both loads were admitted");
      return Pair{"a", "b"};
    }
    const json& other = a_in ? b : a;
    if ((a_in || b_in) && other.value("state", "") == "placing") {
      if (!says_why_it_waits(other)) {
        report.problem("collide: the one that waits does not say why: " + other.dump());
      }
      return a_in ? Pair{"a", "b"} : Pair{"b", "a"};
    }
    sleep_ms(1);
  }
  return Error{Errc::kTimeout, "neither of two loads was admitted"};
}

}  // namespace

Result<void> bench_collide(const Options& options, Report& report) {
  // One slot: a load cannot shrink to fit in with the other.
  const ModelSpec a{"a", R"({"load_ms":5})", 1, 1024, false};
  HOLDFAST_TRY(const double bytes, reserved_bytes(options, {"bench", "{}", 1, 1024, true}));
  HOLDFAST_TRY(const auto cluster,
               start_patient_cluster(options, "collide", {"models.dwell_ms=3600000"}));
  HOLDFAST_CHECKED(cluster->start_worker("w0", device_for(bytes, 1.5)));
  HOLDFAST_CHECKED(add_model(*cluster, options, a));
  ModelSpec b = a;
  b.name = "b";
  HOLDFAST_CHECKED(add_model(*cluster, options, b));
  HOLDFAST_TRY(const auto second,
               client::Client::connect("ipc://" + cluster->dir() + "/run/operator.sock"));
  std::set<std::string> winners;
  const int rounds = options.count(50, 8);
  for (int i = 0; i < rounds; ++i) {
    // At the same time from two connections; each of the two goes first in turn.
    const std::string one = i % 2 == 0 ? "a" : "b";
    const std::string two = i % 2 == 0 ? "b" : "a";
    std::thread other([&] {
      (void)second->op(client::AllTenants::local(), "models.load", json{{"name", two}}.dump());
    });
    const Result<void> requested = operate(*cluster, "models.load", one);
    other.join();
    HOLDFAST_CHECKED(requested);
    HOLDFAST_TRY(const Pair pair, settle(*cluster, report));
    winners.insert(pair.in);
    // Its unload leaves the memory to the other one.
    HOLDFAST_CHECKED(operate(*cluster, "models.unload", pair.in));
    HOLDFAST_CHECKED(wait_state(*cluster, pair.out, "ready"));
    HOLDFAST_CHECKED(operate(*cluster, "models.unload", pair.out));
    HOLDFAST_CHECKED(wait_state(*cluster, "a", "unloaded"));
    HOLDFAST_CHECKED(wait_state(*cluster, "b", "unloaded"));
  }
  report.add("collide.rounds", rounds, "pairs of loads", std::nullopt,
             "one admitted, the other waits with needed and free bytes, each time");
  report.add("collide.winners", static_cast<double>(winners.size()), "models");
  return {};
}

namespace {

/// Finds evictions against the rules in the rows that the daemon wrote.
Result<void> check_evictions(LocalCluster& cluster, std::int64_t dwell_ms, Report& report) {
  HOLDFAST_TRY(const auto evictions,
               query_numbers(cluster.dir(),
                             "SELECT count(*) FROM transitions WHERE subject='load' AND"
                             " to_state='draining' AND reason LIKE 'makes room%'"));
  HOLDFAST_TRY(
      const auto early,
      query_numbers(cluster.dir(),
                    "SELECT count(*) FROM transitions d JOIN transitions r ON r.key=d.key AND"
                    " r.subject='load' AND r.to_state='ready' WHERE d.subject='load' AND"
                    " d.to_state='draining' AND d.reason LIKE 'makes room%' AND"
                    " d.at_ms - r.at_ms < " +
                        std::to_string(dwell_ms)));
  HOLDFAST_TRY(const auto busy,
               query_numbers(cluster.dir(),
                             "SELECT count(*) FROM transitions d JOIN attempts a ON a.load_id=d.key"
                             " WHERE d.subject='load' AND d.to_state='draining' AND"
                             " d.reason LIKE 'makes room%' AND a.started_ms < d.at_ms AND"
                             " coalesce(a.ended_ms, d.at_ms + 1) > d.at_ms"));
  report.add("pressure.evictions", evictions.at(0), "loads");
  if (evictions.at(0) == 0) report.problem("pressure: nothing had to make room");
  if (early.at(0) > 0) report.problem("pressure: a model went before its dwell time was over");
  if (busy.at(0) > 0) report.problem("pressure: a model went while it ran a request");
  return {};
}

}  // namespace

namespace {

/// Answers that the clients of a pressed device got.
struct Answers {
  std::atomic<std::int64_t> requested{0}, answered{0};
  std::mutex mutex;
  std::string failure;  // the last
};

/// Asks models a, b and c in a random order until the time is over.
void ask_at_random(LocalCluster& cluster, unsigned seed, std::int64_t until_us, Answers& all) {
  auto client = cluster.connect();
  if (!client) return;
  std::mt19937 random(seed);
  while (now_us() < until_us) {
    const std::string name(1, static_cast<char>('a' + random() % 3));
    const RequestResult result = ask(**client, name, ++all.requested, 8);
    if (result.failure.empty() && result.tokens == 8) {
      ++all.answered;
    } else {
      const std::lock_guard lock(all.mutex);
      all.failure = result.failure.empty() ? "too few tokens" : result.failure;
    }
    sleep_ms(static_cast<double>(random() % 40));
  }
}

}  // namespace

Result<void> bench_pressure(const Options& options, Report& report) {
  constexpr std::int64_t kDwellMs = 500;
  const std::string engine = R"({"load_ms":40,"step_us":2000})";
  HOLDFAST_TRY(const double bytes, reserved_bytes(options, {"bench", "{}", 4, 1024, true}));
  HOLDFAST_TRY(
      const auto cluster,
      start_patient_cluster(options, "pressure", {"models.dwell_ms=" + std::to_string(kDwellMs)}));
  HOLDFAST_CHECKED(cluster->start_worker("w0", device_for(bytes, 2.5)));
  for (const char* name : {"a", "b", "c"}) {
    HOLDFAST_CHECKED(add_model(*cluster, options, {name, engine, 4, 1024, false}));
  }
  const std::int64_t until = now_us() + static_cast<std::int64_t>(options.seconds(300) * 1e6);
  Answers all;
  std::vector<std::thread> clients;
  for (unsigned c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] { ask_at_random(*cluster, c, until, all); });
  }
  for (std::thread& thread : clients) thread.join();
  const std::int64_t lost_requests = all.requested - all.answered;
  if (lost_requests != 0) {
    report.problem("pressure: " + std::to_string(lost_requests) + " of " +
                   std::to_string(all.requested.load()) + " were not answered: " + all.failure);
  }
  HOLDFAST_TRY(const double lost, cluster->status("/counters/workers_lost"));
  if (lost > 0) report.problem("pressure: a worker died");
  report.add("pressure.requests", static_cast<double>(all.requested.load()), "requests");
  report.add("pressure.lost", static_cast<double>(lost_requests), "requests",
             Goal{0, Better::kLower});
  return check_evictions(*cluster, kDwellMs, report);
}

}  // namespace holdfast::bench
