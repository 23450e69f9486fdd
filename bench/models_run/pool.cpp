// Models that share a device which has not room for all of them.
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
Result<double> reserved_bytes(const Options& options, const ModelWish& wish) {
  HF_TRY(const auto house, patient_house(options, "measure"));
  HF_CHECKED(add_model(*house, options, wish));
  HF_CHECKED(house->start_worker("w0"));
  HF_CHECKED(house->wait_ready(1));
  HF_TRY(const json model, show_model(*house, wish.name));
  return model["loads"][0].value("reserved_bytes", 0.0);
}

/// A worker whose device gives room for `loads` loads, as models.memory_percent has it.
std::vector<std::string> device_for(double bytes, double loads) {
  const auto total = static_cast<std::int64_t>(bytes * loads / 0.9);
  return {"--fake-device", json{{"memory_bytes", total}}.dump()};
}

struct Pair {
  std::string in, out;
};

/// Which one of the two was admitted; the other waits and says for what.
Result<Pair> settle(House& house, Report& report) {
  const std::int64_t until = now_us() + 30'000'000;
  while (now_us() < until) {
    HF_TRY(const json a, show_model(house, "a"));
    HF_TRY(const json b, show_model(house, "b"));
    const bool a_in = a.value("state", "") == "ready";
    const bool b_in = b.value("state", "") == "ready";
    if (a_in && b_in) {
      report.problem("collide: both loads were admitted");
      return Pair{"a", "b"};
    }
    const json& other = a_in ? b : a;
    if ((a_in || b_in) && other.value("state", "") == "placing") {
      const json device = other["devices"].at(0);
      const bool told = other["loads"].empty() && device.value("verdict", "") == "no room now" &&
                        device.value("needed_bytes", 0.0) > device.value("free_bytes", 0.0);
      if (!told) report.problem("collide: the one that waits does not say why: " + other.dump());
      return a_in ? Pair{"a", "b"} : Pair{"b", "a"};
    }
    sleep_ms(1);
  }
  return Error{Errc::kTimeout, "neither of two loads was admitted"};
}

}  // namespace

Result<void> bench_collide(const Options& options, Report& report) {
  // One slot: a load cannot make itself smaller to fit beside the other.
  const ModelWish a{"a", R"({"load_ms":5})", 1, 1024, false};
  HF_TRY(const double bytes, reserved_bytes(options, {"bench", "{}", 1, 1024, true}));
  HF_TRY(const auto house, patient_house(options, "collide", {"models.dwell_ms=3600000"}));
  HF_CHECKED(house->start_worker("w0", device_for(bytes, 1.5)));
  HF_CHECKED(add_model(*house, options, a));
  ModelWish b = a;
  b.name = "b";
  HF_CHECKED(add_model(*house, options, b));
  HF_TRY(const auto second,
         client::Client::connect("ipc://" + house->dir() + "/run/operator.sock"));
  std::set<std::string> winners;
  const int rounds = options.count(50, 8);
  for (int i = 0; i < rounds; ++i) {
    // At the same time from two connections, in turn first.
    const std::string one = i % 2 == 0 ? "a" : "b";
    const std::string two = i % 2 == 0 ? "b" : "a";
    std::thread other([&] {
      (void)second->op(client::AllTenants::local(), "models.load", json{{"name", two}}.dump());
    });
    const Result<void> asked = operate(*house, "models.load", one);
    other.join();
    HF_CHECKED(asked);
    HF_TRY(const Pair pair, settle(*house, report));
    winners.insert(pair.in);
    // When it goes the other one gets its room.
    HF_CHECKED(operate(*house, "models.unload", pair.in));
    HF_CHECKED(wait_state(*house, pair.out, "ready"));
    HF_CHECKED(operate(*house, "models.unload", pair.out));
    HF_CHECKED(wait_state(*house, "a", "unloaded"));
    HF_CHECKED(wait_state(*house, "b", "unloaded"));
  }
  report.add("collide.rounds", rounds, "pairs of loads", std::nullopt,
             "one admitted, the other waits with needed and free bytes, each time");
  report.add("collide.winners", static_cast<double>(winners.size()), "models");
  return {};
}

namespace {

/// Evictions against the rules, by the rows that the daemon wrote.
Result<void> check_evictions(House& house, std::int64_t dwell_ms, Report& report) {
  HF_TRY(const auto evictions,
         query_numbers(house.dir(),
                       "SELECT count(*) FROM transitions WHERE subject='load' AND"
                       " to_state='draining' AND reason LIKE 'makes room%'"));
  HF_TRY(const auto early,
         query_numbers(house.dir(),
                       "SELECT count(*) FROM transitions d JOIN transitions r ON r.key=d.key AND"
                       " r.subject='load' AND r.to_state='ready' WHERE d.subject='load' AND"
                       " d.to_state='draining' AND d.reason LIKE 'makes room%' AND"
                       " d.at_ms - r.at_ms < " +
                           std::to_string(dwell_ms)));
  HF_TRY(const auto busy,
         query_numbers(house.dir(),
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

Result<void> bench_pressure(const Options& options, Report& report) {
  constexpr std::int64_t kDwellMs = 500;
  const std::string engine = R"({"load_ms":40,"step_us":2000})";
  HF_TRY(const double bytes, reserved_bytes(options, {"bench", "{}", 4, 1024, true}));
  HF_TRY(const auto house,
         patient_house(options, "pressure", {"models.dwell_ms=" + std::to_string(kDwellMs)}));
  HF_CHECKED(house->start_worker("w0", device_for(bytes, 2.5)));
  for (const char* name : {"a", "b", "c"}) {
    HF_CHECKED(add_model(*house, options, {name, engine, 4, 1024, false}));
  }
  const std::int64_t until = now_us() + static_cast<std::int64_t>(options.seconds(300) * 1e6);
  std::atomic<std::int64_t> asked{0}, answered{0};
  std::mutex mutex;
  std::string failure;
  std::vector<std::thread> clients;
  for (unsigned c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      auto client = house->connect();
      if (!client) return;
      std::mt19937 random(c);
      while (now_us() < until) {
        const std::string name(1, static_cast<char>('a' + random() % 3));
        const Heard heard = ask(**client, name, ++asked, 8);
        if (heard.failure.empty() && heard.tokens == 8) {
          ++answered;
        } else {
          const std::lock_guard lock(mutex);
          failure = heard.failure.empty() ? "too few tokens" : heard.failure;
        }
        sleep_ms(static_cast<double>(random() % 40));
      }
    });
  }
  for (std::thread& thread : clients) thread.join();
  if (answered != asked) {
    report.problem("pressure: " + std::to_string(asked - answered) + " of " +
                   std::to_string(asked.load()) + " were not answered: " + failure);
  }
  HF_TRY(const double lost, house->status("/counters/workers_lost"));
  if (lost > 0) report.problem("pressure: a worker died");
  report.add("pressure.requests", static_cast<double>(asked.load()), "requests");
  report.add("pressure.lost", static_cast<double>(asked - answered), "requests",
             Goal{0, Better::kLower});
  return check_evictions(*house, kDwellMs, report);
}

}  // namespace holdfast::bench
