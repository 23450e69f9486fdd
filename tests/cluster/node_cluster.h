#pragma once
// A server without workers and two nodes, each on a machine of its own, for tests of nodes.

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/supervisor_note.h"
#include "tests/cluster/server_machine.h"

namespace holdfast::cluster {

constexpr int kFirstNode = 1;
constexpr int kNodes = 2;

/// A server without workers and two nodes, each on a machine of its own.
class Cluster {
 public:
  explicit Cluster(Machines& machines) : machines_(machines), server_(machines) {}

  void start() {
    ASSERT_NO_FATAL_FAILURE(server_.start({"--workers", "0"}));
    for (int i = 0; i < kNodes; ++i) {
      ASSERT_EQ(cli({"keys", "node", "create", name_of(i), "--out", key_of(i)}).first, 0);
      start_node(i);
      ASSERT_TRUE(nodes_.at(i)->says("joined " + name_of(i), kPatienceS)) << nodes_.at(i)->errors();
    }
    const std::string model = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";
    ASSERT_EQ(cli({"models", "add", "m", model, "--options", R"({"step_us": 4000})"}).first, 0);
    ASSERT_EQ(cli({"models", "load", "m"}).first, 0);
  }
  void start_node(int node) {
    nodes_.at(node) = machines_.start(
        kFirstNode + node,
        {"holdfast", "node", "--state", machines_.dir() + "/" + name_of(node), "--join",
         ServerMachine::listener(), "--key", key_of(node), "--engine", "fake", "--threads", "1"});
  }
  /// As ServerMachine::cli().
  std::pair<int, std::string> cli(std::vector<std::string> args) {
    return server_.cli(std::move(args));
  }
  /// Starts a request for the text of a seed.
  std::unique_ptr<Program> run(int seed, int tokens = 150) {
    return server_.begin({"run", "m", "To be", "--raw", "--max-tokens", std::to_string(tokens),
                          "--ignore-eos", "--seed", std::to_string(seed)});
  }
  /// Returns the node as `nodes list` has it; null if it is not there.
  nlohmann::json row_of(int node);
  std::string state_of(int node);
  bool reaches(int node, const std::string& state, int patience_s = 30) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(patience_s);
    while (std::chrono::steady_clock::now() < until) {
      if (state_of(node) == state) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  /// Kills one process of a machine, drawn by `draw`: the node's supervisor or a worker of it.
  void kill_one(int node, unsigned draw) const {
    const std::vector<pid_t> all = machines_.processes(kFirstNode + node);
    if (!all.empty()) kill(all[draw % all.size()], SIGKILL);
  }
  /// Starts the node again if its supervisor has ended.
  void mend(int node) {
    if (nodes_.at(node)->has_ended()) start_node(node);
  }
  Program& node(int node) { return *nodes_.at(node); }
  std::string daemon_log() const { return server_.daemon_log(); }
  /// Waits until the daemon has the node's worker.
  bool has_worker(int node);
  /// Sends a signal to the node's worker, not to the node.
  void send_to_worker(int node, int signal) const {
    const std::string run = machines_.dir() + "/" + name_of(node) + "/run";
    for (const SupervisedChild& child : read_supervisor_note(run).children) {
      if (child.pid > 0) kill(static_cast<pid_t>(child.pid), signal);
    }
  }
  void stop_server() { server_.stop(); }
  std::string errors() const { return server_.errors(); }

 private:
  static std::string name_of(int node) { return "n" + std::to_string(node); }
  std::string key_of(int node) const { return machines_.dir() + "/" + name_of(node) + ".key"; }

  Machines& machines_;
  ServerMachine server_;
  std::array<std::unique_ptr<Program>, kNodes> nodes_;
};

}  // namespace holdfast::cluster
