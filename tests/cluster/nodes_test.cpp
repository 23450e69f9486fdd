// Goal: requests whose workers are on other machines end once with the text of an undisturbed run,
// whatever the machines and the network between them do. Method: `holdfast serve` without workers
// in one network namespace, `holdfast node` in two others, wires that lose packets; processes
// killed and stopped, cables cut in one and both directions, machines without power.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/cluster/node_cluster.h"

namespace holdfast::cluster::nodes_test {
namespace {

using std::chrono::milliseconds;

constexpr int kStreams = 6;
constexpr int kCycles = 100;  // HOLDFAST_TEST_CYCLES sets another number

int cycles() {
  const char* text = std::getenv("HOLDFAST_TEST_CYCLES");
  return text != nullptr ? std::atoi(text) : kCycles;
}

std::vector<std::string> texts_of(std::vector<std::unique_ptr<Program>>& runs) {
  std::vector<std::string> texts;
  for (const auto& run : runs) {
    const int code = run->wait(kPatienceS);
    texts.push_back(code == 0 ? run->output()
                              : "FAILED " + std::to_string(code) + " " + run->errors());
  }
  return texts;
}

std::vector<std::unique_ptr<Program>> start_runs(Cluster& cluster) {
  std::vector<std::unique_ptr<Program>> runs;
  for (int i = 0; i < kStreams; ++i) runs.push_back(cluster.run(i + 1));
  return runs;
}

/// One thing that happens to a machine and is over when this returns, and its name.
std::string disturb(Machines& machines, Cluster& cluster, std::mt19937& random) {
  const int node = static_cast<int>(random() % kNodes);
  const int machine = kFirstNode + node;
  const auto pause = [&](unsigned most_ms) {
    std::this_thread::sleep_for(milliseconds(50 + random() % most_ms));
  };
  switch (random() % 6) {
    case 0:
    case 1:
      cluster.kill_one(node, random());
      pause(200);
      cluster.mend(node);
      return "kill";
    case 2:
      EXPECT_TRUE(machines.set_wire(machine, "cut").has_value());
      pause(3'000);
      EXPECT_TRUE(machines.set_wire(machine, "heal").has_value());
      return "cut";
    case 3:
      EXPECT_TRUE(machines.set_wire(machine, random() % 2 == 0 ? "cut a" : "cut b").has_value());
      pause(3'000);
      EXPECT_TRUE(machines.set_wire(machine, "heal").has_value());
      return "one way";
    case 4:
      machines.send_to_all(machine, SIGSTOP);
      pause(3'000);
      machines.send_to_all(machine, SIGCONT);
      return "stop";
    default:
      machines.power_off(machine);
      pause(500);
      EXPECT_TRUE(machines.power_on(machine).has_value());
      EXPECT_TRUE(machines.set_wire(machine, "loss 10").has_value());
      cluster.mend(node);
      return "power";
  }
}

TEST(Nodes, Requests_WhileMachinesAndCablesFail_HaveTheTextOfAnUndisturbedRun) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kNodes, 7);
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  auto calm_runs = start_runs(cluster);
  const std::vector<std::string> calm = texts_of(calm_runs);
  for (const std::string& text : calm) ASSERT_GT(text.size(), 100u) << text;
  for (int i = 0; i < kNodes; ++i) {
    ASSERT_TRUE(machines->set_wire(kFirstNode + i, "loss 10").has_value());
  }
  std::mt19937 random(2'026);
  std::map<std::string, int> happened;
  for (int done = 0; done < cycles();) {
    auto runs = start_runs(cluster);
    for (int i = 0; i < 3; ++i, ++done) ++happened[disturb(*machines, cluster, random)];
    for (int i = 0; i < kNodes; ++i) cluster.mend(i);
    ASSERT_EQ(texts_of(runs), calm) << cluster.errors();
  }
  for (const auto& [what, count] : happened) std::printf("%s %d\n", what.c_str(), count);
  EXPECT_GE(happened.size(), 4u) << "otherwise little was shown";
  cluster.stop_server();
}

TEST(Nodes, Node_WhoseMachineLosesPower_IsLostAndComesBack) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kNodes, 8);
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  machines->power_off(kFirstNode);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(cluster.reaches(0, "lost"));
  const auto took = std::chrono::steady_clock::now() - begin;
  std::printf("lost after %lld ms\n",
              static_cast<long long>(std::chrono::duration_cast<milliseconds>(took).count()));
  EXPECT_EQ(cluster.state_of(1), "ready");
  ASSERT_TRUE(machines->power_on(kFirstNode).has_value());
  cluster.mend(0);
  EXPECT_TRUE(cluster.reaches(0, "ready")) << cluster.node(0).errors();
  cluster.stop_server();
}

TEST(Nodes, Node_WithoutADaemon_GoesOnAndReportsLater) {
  HOLDFAST_MAKE_MACHINES(machines, 1 + kNodes, 9);
  Cluster cluster(*machines);
  ASSERT_NO_FATAL_FAILURE(cluster.start());
  for (int i = 0; i < kNodes; ++i) {
    ASSERT_TRUE(machines->set_wire(kFirstNode + i, "cut").has_value());
  }
  EXPECT_TRUE(cluster.reaches(0, "lost"));
  EXPECT_TRUE(cluster.reaches(1, "lost"));
  auto runs = start_runs(cluster);  // wait for a worker
  for (int i = 0; i < kNodes; ++i) {
    ASSERT_TRUE(machines->set_wire(kFirstNode + i, "heal").has_value());
  }
  for (const std::string& text : texts_of(runs)) EXPECT_GT(text.size(), 100u) << text;
  EXPECT_FALSE(cluster.node(0).has_ended()) << cluster.node(0).errors();
  cluster.stop_server();
}

}  // namespace
}  // namespace holdfast::cluster::nodes_test
