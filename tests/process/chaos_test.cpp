// Goal: nothing that was acknowledged is lost, repeated or different, whichever process dies,
// wherever in its code, again and again. Method: `holdfast serve` under load; each cycle is one
// death, by SIGKILL from outside or at a crash point, with at least eight requests between their
// acceptance and their end; processes are stopped and continued too. Clients write down what they
// saw; at the end an outside checker (chaos_checker.h) compares that with what can be read. CLI
// readers run all the time.
//
//   process_chaos_test                        300 cycles, at least 3 for each process and point
//   process_chaos_test --cycles N --seed S    the long form
//   process_chaos_test --only worker.adopt    points that begin with this

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "shared/base/crash_point.h"
#include "tests/process/chaos_checker.h"
#include "tests/process/chaos_clients.h"
#include "tests/process/chaos_faults.h"

namespace holdfast::process::chaos_test {
namespace {

using SteadyClock = std::chrono::steady_clock;

int g_cycles = 300;
std::uint64_t g_seed = 1;
std::string g_only;  // beginning of a point's or role's name

constexpr std::int64_t kInFlightMin = 8;
constexpr std::int64_t kEndsAfterMin = 4;  // requests that end after each death
constexpr auto kPatience = std::chrono::seconds(60);

const std::vector<std::string> kRoles = {"daemon",    "worker-0", "worker-1", "ingress-0",
                                         "ingress-1", "gateway",  "client",   "supervisor"};

/// `status`, `requests list` and `queue stats` in a loop: each answer is a whole document, or says
/// that no daemon answers.
class CliReader {
 public:
  explicit CliReader(const TestServer& server) : server_(server), thread_([this] { run(); }) {}
  ~CliReader() { stop(); }
  void stop() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
  }
  int whole = 0, unreachable = 0;  // after stop()
  std::vector<std::string> wrong;

 private:
  void run() {
    const std::vector<std::vector<std::string>> verbs = {
        {"--json", "status"}, {"--json", "requests", "list"}, {"--json", "queue", "stats"}};
    for (std::size_t i = 0; !stop_.load(); ++i) {
      const Ended ended = server_.cli(verbs[i % verbs.size()]);
      const auto document = nlohmann::json::parse(ended.out, nullptr, false);
      const bool is_error = document.is_object() && document.contains("error");
      if (ended.code == 0 && document.is_object() && !is_error) {
        ++whole;
      } else if (ended.code == 69 && is_error) {
        ++unreachable;
      } else {
        wrong.push_back(verbs[i % verbs.size()][1] + ": status " + std::to_string(ended.code) +
                        ": " + ended.out + ended.err);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  const TestServer& server_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// One death: at a crash point, or (empty) by SIGKILL to a role.
struct Cycle {
  std::string point;
  std::string role;
};

/// Plans three of each point first, then roles, `count` in all, in a random order. Points that a
/// running server does not pass are left to crash_points_test, those of webhooks, batches and pulls
/// to their tests.
std::vector<Cycle> plan_cycles(int count, std::mt19937_64& random, std::size_t points_share) {
  std::vector<Cycle> cycles;
  const auto points = crash_points();
  const int rounds = std::max(3, count * 3 / 4 / static_cast<int>(points.size()));
  for (std::size_t i = 0; i < points.size(); i += points_share) {
    const std::string name(points[i].name);
    const auto begins = [&](const char* text) { return name.rfind(text, 0) == 0; };
    if (begins("daemon.migrate.") || begins("gateway.hook.") || begins("gateway.batch.") ||
        begins("fetcher.")) {
      continue;
    }
    for (int r = 0; r < rounds; ++r) cycles.push_back({name, ""});
  }
  std::size_t role = 0;
  while (static_cast<int>(cycles.size()) < count || role < 3 * kRoles.size()) {
    cycles.push_back({"", kRoles[role++ % kRoles.size()]});
  }
  std::erase_if(cycles, [](const Cycle& c) { return (c.point + c.role).rfind(g_only, 0) != 0; });
  std::shuffle(cycles.begin(), cycles.end(), random);
  return cycles;
}

struct Scenario {
  std::vector<std::string> flags;
  std::vector<Spec> specs;
  int sdk_clients = 12;
  int http_clients = 4;
  std::vector<Cycle> cycles;
};

class Chaos : public testing::Test {
 protected:
  void run(Scenario scenario);
  std::mt19937_64 random_{g_seed};

 private:
  bool wait_for(const std::function<bool()>& done) {
    const auto until = SteadyClock::now() + kPatience;
    while (!done()) {
      if (SteadyClock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  void start_clients(const Scenario& scenario, const Faults& faults);
  std::string one_cycle(const Cycle& cycle, Faults& faults);
  void print(const Faults& faults, const Verdict& verdict, const CliReader& reader) const;

  TempDir dir_;
  std::atomic<bool> stop_{false};
  World world_;
  std::unique_ptr<ClientLog> log_;
  std::vector<std::thread> clients_;
  int in_flight_least_ = 1'000'000;
  std::int64_t slowest_ms_ = 0;
};

void Chaos::start_clients(const Scenario& scenario, const Faults& faults) {
  world_.url = [&faults] { return faults.url(); };
  world_.specs = &scenario.specs;
  world_.stop = &stop_;
  for (int i = 0; i < scenario.sdk_clients + scenario.http_clients; ++i) {
    const std::uint64_t seed = g_seed * 1'000 + static_cast<std::uint64_t>(i);
    const auto work = i < scenario.sdk_clients ? &run_sdk_client : &run_http_client;
    clients_.emplace_back([this, seed, work] { work(world_, seed, *log_); });
  }
}

std::string Chaos::one_cycle(const Cycle& cycle, Faults& faults) {
  if (random_() % 4 == 0) {
    // Mostly shorter than any timeout, or just longer; now and then longer than all of them.
    const int ms = random_() % 20 == 0 ? 2'500 : 20 + static_cast<int>(random_() % 150);
    faults.pause_role(kRoles[random_() % kRoles.size()], ms);
  }
  if (!wait_for([&] { return log_->in_flight() >= kInFlightMin; })) return "no load comes up";
  in_flight_least_ = std::min(in_flight_least_, static_cast<int>(log_->in_flight()));
  const std::string wrong =
      cycle.point.empty() ? faults.kill_role(cycle.role) : faults.die_at(cycle.point);
  if (!wrong.empty()) return wrong;
  const std::int64_t ends = log_->ends();
  if (!wait_for([&] { return log_->ends() >= ends + kEndsAfterMin; })) return "no request ends";
  return "";
}

void Chaos::print(const Faults& faults, const Verdict& verdict, const CliReader& reader) const {
  std::printf("%s\n", verdict.str().c_str());
  std::printf("killed:");
  for (const auto& [role, times] : faults.kills()) std::printf(" %s %d", role.c_str(), times);
  std::printf("\npaused:");
  for (const auto& [role, times] : faults.pauses()) std::printf(" %s %d", role.c_str(), times);
  std::printf("\ndied at:\n");
  for (const auto& [point, times] : faults.deaths()) {
    std::printf("  %-32s %d\n", point.c_str(), times);
  }
  std::printf("in flight at each death: at least %d; slowest cycle %lld ms\n", in_flight_least_,
              static_cast<long long>(slowest_ms_));
  std::printf("CLI readers: %d whole answers, %d times no daemon\n", reader.whole,
              reader.unreachable);
  std::fflush(stdout);
}

void Chaos::run(Scenario scenario) {
  const std::string crash_file = dir_.path() + "/crash";
  TestServer server(dir_.path() + "/state");
  ASSERT_TRUE(server.start(scenario.flags)) << server.errors();
  std::string why;
  log_ = std::make_unique<ClientLog>(dir_.path() + "/threads.log");
  ASSERT_TRUE(fill_references(server, scenario.specs, *log_, &why)) << why << server.errors();
  const std::string specs_path = dir_.path() + "/specs";
  ASSERT_TRUE(save_specs(scenario.specs, specs_path));
  // From here on every process that starts may be armed, the supervisor included.
  ASSERT_EQ(server.stop(), 0);
  setenv("HOLDFAST_CRASH_AT", ("@" + crash_file).c_str(), 1);
  ASSERT_TRUE(server.start(scenario.flags)) << server.errors();

  world_.endpoint = "ipc://" + server.state() + "/run/clients.sock";
  ClientProcess process(world_.endpoint, specs_path, dir_.path() + "/process.log.");
  Faults faults(server, scenario.flags, process, crash_file, g_seed);
  start_clients(scenario, faults);
  process.start();
  CliReader reader(server);
  for (std::size_t i = 0; i < scenario.cycles.size(); ++i) {
    const Cycle& cycle = scenario.cycles[i];
    const auto begin = SteadyClock::now();
    const std::string wrong = one_cycle(cycle, faults);
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - begin).count();
    slowest_ms_ = std::max<std::int64_t>(slowest_ms_, took);
    if (std::getenv("CHAOS_VERBOSE") != nullptr) {
      std::printf("%zu %s%s %lld ms\n", i, cycle.point.c_str(), cycle.role.c_str(),
                  static_cast<long long>(took));
      std::fflush(stdout);
    }
    EXPECT_EQ(wrong, "") << "cycle " << i << ": " << cycle.point << cycle.role << server.errors();
    if (!wrong.empty()) break;
  }
  unsetenv("HOLDFAST_CRASH_AT");
  if (server.supervisor_pid() == 0 && !server.start(scenario.flags)) {
    // Clients would wait for ever for a server that does not come back.
    std::printf("the house does not start: %s\n", server.errors().c_str());
    std::fflush(stdout);
    std::_Exit(1);
  }
  stop_.store(true);
  for (std::thread& client : clients_) client.join();
  EXPECT_TRUE(process.stop()) << "the client process did not end";
  reader.stop();
  std::vector<std::string> logs = process.logs();
  logs.push_back(log_->path());
  const Verdict verdict = check_everything(server, scenario.specs, logs);
  print(faults, verdict, reader);
  EXPECT_TRUE(verdict.good()) << server.errors();
  EXPECT_GT(verdict.acknowledged, static_cast<std::int64_t>(scenario.cycles.size()));
  for (const std::string& wrong : reader.wrong) ADD_FAILURE() << "CLI: " << wrong;
  EXPECT_GT(reader.whole, 0);
  std::map<std::string, int> planned;
  for (const Cycle& cycle : scenario.cycles) ++planned[cycle.point];
  for (const auto& [point, times] : planned) {
    const auto died = faults.deaths().find(point);
    const int deaths = died == faults.deaths().end() ? 0 : died->second;
    EXPECT_TRUE(point.empty() || deaths >= times) << point << " was died at " << deaths << " times";
  }
  for (const std::string& role : kRoles) {
    if (!g_only.empty()) continue;
    const auto killed = faults.kills().find(role);
    EXPECT_GE(killed == faults.kills().end() ? 0 : killed->second, 3) << role;
  }
}

std::vector<std::string> server_flags() {
  return {"--model", "demo=" + demo_model(), "--workers", "2", "--ingress", "2", "--threads",
          "1",       "--restart-max-ms",     "20"};
}

TEST_F(Chaos, Requests_UnderRandomKillsOnFakeEngine_EndOnceWithTheSameTokens) {
  Scenario scenario;
  scenario.flags = server_flags();
  scenario.flags.insert(scenario.flags.end(),
                        {"--engine", "fake", "--engine-options", R"({"step_us": 4000})"});
  scenario.specs = make_specs(24, 16, 60);
  scenario.cycles = plan_cycles(g_cycles, random_, 1);
  run(std::move(scenario));
}

// The real engine on the demo model: fewer cycles, every fifth point.
TEST_F(Chaos, Requests_UnderRandomKillsOnRealEngine_EndOnceWithTheSameTokens) {
  Scenario scenario;
  scenario.flags = server_flags();
  scenario.specs = make_specs(16, 24, 80);
  scenario.sdk_clients = 10;
  scenario.http_clients = 3;
  scenario.cycles = plan_cycles(24, random_, 7);
  run(std::move(scenario));
}

}  // namespace
}  // namespace holdfast::process::chaos_test

int main(int argc, char** argv) {
  using namespace holdfast::process::chaos_test;
  std::vector<std::string> args(argv + 1, argv + argc);
  if (!args.empty() && args[0] == "--client") {
    return holdfast::process::client_main({args.begin() + 1, args.end()});
  }
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--cycles") g_cycles = std::atoi(argv[i + 1]);
    if (flag == "--only") g_only = argv[i + 1];
    if (flag == "--seed") g_seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(g_seed));
  return RUN_ALL_TESTS();
}
