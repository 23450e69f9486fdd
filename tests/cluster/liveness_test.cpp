// Goal: a machine that stands still, or whose cable is cut in one or both directions, is noticed by
// its datagrams long before TCP would notice, and its work goes on elsewhere; a network that loses
// packets, or has no UDP, costs no worker. Method: `holdfast serve` and two nodes in network
// namespaces with requests that run; the daemon's log says when and why. Times are printed.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cluster/node_cluster.h"

namespace holdfast::cluster::liveness_test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr int kBlows = 3;          // of each kind; HOLDFAST_TEST_BLOWS sets another number
constexpr int kLossySeconds = 10;  // HOLDFAST_TEST_LOSSY_SECONDS sets another number
constexpr int kTokens = 400;       // 1.6 s

int setting(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : fallback;
}

std::int64_t wall_ms() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// A line of the daemon's log.
struct LogLine {
  std::int64_t at_ms = 0;  // wall
  json fields;
};

/// Returns the lines with that event, from an instant on.
std::vector<LogLine> lines_in(const std::string& log, const std::string& event,
                              std::int64_t from_ms) {
  std::vector<LogLine> found;
  std::istringstream lines(log);
  for (std::string text; std::getline(lines, text);) {
    const json fields = json::parse(text, nullptr, false);
    if (!fields.is_object() || fields.value("event", "") != event) continue;
    const std::string time = fields.at("time");  // 2026-11-28T20:25:39.123Z
    std::tm parts{};
    int ms = 0;
    const char* rest = strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (rest == nullptr || std::sscanf(rest, ".%dZ", &ms) != 1) continue;
    const std::int64_t at_ms = std::int64_t{timegm(&parts)} * 1000 + ms;
    if (at_ms >= from_ms) found.push_back({at_ms, fields});
  }
  return found;
}

/// Waits until the daemon has lost the first node's worker after an instant.
std::optional<LogLine> wait_for_loss(const Cluster& cluster, std::int64_t from_ms) {
  for (int i = 0; i < 500; ++i) {
    const auto losses = lines_in(cluster.daemon_log(), "worker lost", from_ms);
    const auto loss = std::find_if(losses.begin(), losses.end(), [](const LogLine& line) {
      return line.fields.value("worker", "") == "n0/worker-0";
    });
    if (loss != losses.end()) return *loss;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return std::nullopt;
}

/// Waits until a node and its worker are there and both are judged by datagrams.
void wait_until_well(Cluster& cluster, int node) {
  ASSERT_TRUE(cluster.has_worker(node));
  for (int i = 0; i < 300; ++i) {
    const json row = cluster.row_of(node);
    if (row.is_object() && row["state"] == "ready" && row["liveness"] == "datagrams") return;
    std::this_thread::sleep_for(milliseconds(20));
  }
  FAIL() << cluster.row_of(node).dump() << cluster.node(node).errors();
}

/// Makes the wires real-time processes: a network does not wait for a processor of its hosts. False
/// without the right to.
bool make_wires_punctual(const Machines& machines) {
  bool punctual = true;
  for (int machine = 0; machine <= kNodes; ++machine) {
    sched_param priority{};
    priority.sched_priority = 1;
    const pid_t wire = machines.wire_pid(machine);
    punctual = sched_setscheduler(wire, SCHED_RR | SCHED_RESET_ON_FORK, &priority) == 0 && punctual;
  }
  if (!punctual) std::printf("no right to real-time wires: alarms of a busy host are not judged\n");
  return punctual;
}

/// A thing that happens to a machine, its end, and what the daemon must say of it.
struct Blow {
  const char* name;
  std::function<void()> begin, end;
  const char* reason;
};

void print_times(const char* name, std::vector<std::int64_t> times) {
  std::sort(times.begin(), times.end());
  std::printf("%s: work queued again after %lld to %lld ms, median %lld, of %zu\n", name,
              static_cast<long long>(times.front()), static_cast<long long>(times.back()),
              static_cast<long long>(times[times.size() / 2]), times.size());
}

void measure(Cluster& cluster, const Blow& blow) {
  std::vector<std::int64_t> times;
  int as_expected = 0;
  const int blows = setting("HOLDFAST_TEST_BLOWS", kBlows);
  for (int i = 0; i < blows; ++i) {
    ASSERT_NO_FATAL_FAILURE(wait_until_well(cluster, 0));
    ASSERT_NO_FATAL_FAILURE(wait_until_well(cluster, 1));
    std::vector<std::unique_ptr<Program>> runs;
    for (int run = 0; run < 8; ++run) runs.push_back(cluster.run(run + 1, kTokens));
    std::this_thread::sleep_for(milliseconds(150 + 13 * i % 10));  // at any point of a beat
    const std::int64_t begin_ms = wall_ms();
    blow.begin();
    const auto loss = wait_for_loss(cluster, begin_ms);
    blow.end();
    ASSERT_TRUE(loss.has_value()) << blow.name << cluster.errors();
    times.push_back(loss->at_ms - begin_ms);
    const std::string why = loss->fields.at("why");
    if (why.find(blow.reason) != std::string::npos) ++as_expected;
    std::printf("%s: %s\n", blow.name, why.c_str());
    for (const auto& run : runs) EXPECT_EQ(run->wait(kPatienceS), 0) << run->errors();
  }
  // On a busy host TCP, or a process that stopped a moment before its machine, may be first.
  EXPECT_GT(as_expected, 0) << blow.name << ": never for the reason \"" << blow.reason << "\"";
  print_times(blow.name, times);
}

TEST(Liveness, Standstills_OfMachinesAndCables_AreNoticedByDatagrams) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kNodes, 20);
  (void)make_wires_punctual(*machines);
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  const auto wire = [&](const char* command) {
    return
        [&machines, command] { ASSERT_TRUE(machines->set_wire(kFirstNode, command).has_value()); };
  };
  const auto all = [&](int signal) {
    return [&machines, signal] { machines->send_to_all(kFirstNode, signal); };
  };
  const Blow blows[] = {
      {"cable cut", wire("cut"), wire("heal"), "no datagram of it"},
      {"cable cut from the node", wire("cut a"), wire("heal"), "no datagram of it"},
      {"cable cut to the node", wire("cut b"), wire("heal"), "none of our datagrams reached it"},
      {"machine stands still", all(SIGSTOP), all(SIGCONT), "no datagram of it"},
      {"worker stands still", [&] { cluster.send_to_worker(0, SIGSTOP); },
       [&] { cluster.send_to_worker(0, SIGCONT); }, "stopped for"},
      {"worker killed", [&] { cluster.send_to_worker(0, SIGKILL); }, [] {}, ""},
  };
  for (const Blow& blow : blows) ASSERT_NO_FATAL_FAILURE(measure(cluster, blow));
  cluster.stop_server();
}

TEST(Liveness, Supervisor_ThatAloneStandsStill_IsSuspectedAndItsBusyWorkerGoesOn) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kNodes, 21);
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  ASSERT_NO_FATAL_FAILURE(wait_until_well(cluster, 0));
  std::vector<std::unique_ptr<Program>> runs;
  for (int run = 0; run < 8; ++run) runs.push_back(cluster.run(run + 1, kTokens));
  std::this_thread::sleep_for(milliseconds(200));
  const std::int64_t begin_ms = wall_ms();
  cluster.node(0).stop();
  EXPECT_TRUE(cluster.reaches(0, "lost"));
  const auto suspected =
      lines_in(cluster.daemon_log(), "node suspect: its workers get no new work", begin_ms);
  ASSERT_FALSE(suspected.empty());
  std::printf("supervisor stands still: suspected after %lld ms\n",
              static_cast<long long>(suspected.front().at_ms - begin_ms));
  EXPECT_NE(suspected.front().fields.at("why").get<std::string>().find("no datagram of it"),
            std::string::npos);
  for (const auto& run : runs) EXPECT_EQ(run->wait(kPatienceS), 0) << run->errors();
  cluster.node(0).resume();
  ASSERT_NO_FATAL_FAILURE(wait_until_well(cluster, 0));
  cluster.stop_server();
}

/// Lets the cluster work for a while over wires that lose packets, and looks for alarms.
void expect_no_alarms(Cluster& cluster, bool punctual, const char* name, int seconds) {
  for (int i = 0; i < kNodes; ++i) ASSERT_NO_FATAL_FAILURE(wait_until_well(cluster, i));
  std::uint64_t missed = 0;
  for (int i = 0; i < kNodes; ++i)
    missed -= cluster.row_of(i)["datagrams_missed"].get<std::uint64_t>();
  const std::int64_t begin_ms = wall_ms();
  while (wall_ms() - begin_ms < seconds * 1000) {
    std::vector<std::unique_ptr<Program>> runs;
    for (int run = 0; run < 8; ++run) runs.push_back(cluster.run(run + 1, kTokens));
    for (const auto& run : runs) EXPECT_EQ(run->wait(kPatienceS), 0) << run->errors();
  }
  std::int64_t longest_ms = 0;
  for (int i = 0; i < kNodes; ++i) {
    const json row = cluster.row_of(i);
    EXPECT_EQ(row["liveness"], "datagrams") << row.dump();
    missed += row["datagrams_missed"].get<std::uint64_t>();
    longest_ms = std::max(longest_ms, row["silence_ms"].get<std::int64_t>());
  }
  const std::string log = cluster.daemon_log();
  const std::size_t alarms =
      lines_in(log, "node suspect: its workers get no new work", begin_ms).size();
  // One is what a host may do that other tests share; a long run on an idle one allows none.
  const bool shared_host = std::getenv("HOLDFAST_TEST_LOSSY_SECONDS") == nullptr;
  if (punctual) {
    EXPECT_LE(alarms, shared_host ? 1u : 0u);
  }
  std::printf("%s: %d s, %llu datagrams missed, longest silence %lld ms, %zu alarms\n", name,
              seconds, static_cast<unsigned long long>(missed), static_cast<long long>(longest_ms),
              alarms);
}

TEST(Liveness, Nodes_OverWiresThatLosePackets_GiveNoFalseAlarm) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kNodes, 22);
  const bool punctual = make_wires_punctual(*machines);
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  const int seconds = setting("HOLDFAST_TEST_LOSSY_SECONDS", kLossySeconds);
  for (const auto& [name, loss] : {std::pair{"loss 1 %", "loss 10"}, {"loss 3 %", "loss 30"}}) {
    for (int i = 0; i < kNodes; ++i) {
      ASSERT_TRUE(machines->set_wire(kFirstNode + i, loss).has_value());
    }
    const WireCounters before = machines->counters(kFirstNode).value();
    ASSERT_NO_FATAL_FAILURE(expect_no_alarms(cluster, punctual, name, seconds));
    const WireCounters after = machines->counters(kFirstNode).value();
    EXPECT_GT(after.a.lost, before.a.lost) << "otherwise nothing was shown";
  }
  cluster.stop_server();
}

TEST(Liveness, Nodes_WhileEveryProcessorIsBusy_GiveNoFalseAlarm) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kNodes, 23);
  const bool punctual = make_wires_punctual(*machines);
  std::vector<std::unique_ptr<Program>> spinners;
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  for (int i = 0; i < 2 * cores; ++i) {
    spinners.push_back(machines->start_function(kFirstNode + i % kNodes, [] {
      for (std::atomic<unsigned> turns{0};;) ++turns;
      return 0;
    }));
  }
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  expect_no_alarms(cluster, punctual, "two spinners a core",
                   setting("HOLDFAST_TEST_LOSSY_SECONDS", kLossySeconds));
  for (const auto& spinner : spinners) spinner->end(SIGKILL);
  cluster.stop_server();
}

TEST(Liveness, Nodes_WithoutUdp_AreJudgedByTcpAndDoctorSaysSo) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kNodes, 24);
  const auto taken = machines->socket(kServer, SOCK_DGRAM);
  ASSERT_TRUE(taken.has_value()) << taken.error().what;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(7070);
  ASSERT_EQ(bind(*taken, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  ASSERT_TRUE(cluster.has_worker(0));
  EXPECT_EQ(cluster.row_of(0)["liveness"], "tcp");
  EXPECT_NE(cluster.daemon_log().find("no datagrams of nodes: their liveness is judged by TCP"),
            std::string::npos);
  std::this_thread::sleep_for(milliseconds(3'500));
  const std::string status = cluster.cli({"--json", "status"}).second;
  EXPECT_NE(status.find("no datagrams: liveness by TCP"), std::string::npos) << status;
  const std::int64_t begin_ms = wall_ms();
  ASSERT_TRUE(machines->set_wire(kFirstNode, "cut").has_value());
  const auto loss = wait_for_loss(cluster, begin_ms);
  ASSERT_TRUE(loss.has_value());
  std::printf("cable cut, without UDP: lost after %lld ms\n",
              static_cast<long long>(loss->at_ms - begin_ms));
  ASSERT_TRUE(machines->set_wire(kFirstNode, "heal").has_value());
  EXPECT_TRUE(cluster.reaches(0, "ready"));
  cluster.stop_server();
  close(*taken);
}

}  // namespace
}  // namespace holdfast::cluster::liveness_test
