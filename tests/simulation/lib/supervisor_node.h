#pragma once
// The supervisor of a node in a simulation (ops/node): reports in, beats each 10 ms by datagrams
// (the real ones, shared/wire/liveness.h), drains, leaves, and is lost with its machine. Its
// workers have connections of their own.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/wire/liveness.h"
#include "tests/simulation/lib/network.h"

namespace holdfast::simulation {

class ControlPlane;
class WorkerNode;

class SupervisorNode final : public Endpoint {
 public:
  SupervisorNode(World& world, Network& network, ControlPlane& daemon, int index);

  const std::string& name() const { return name_; }
  void add(WorkerNode* worker) { workers_.push_back(worker); }
  const std::vector<WorkerNode*>& workers() const { return workers_; }

  void start();
  bool runs() const { return runs_; }
  /// The machine is lost with all that runs on it, and comes back after a while.
  void lose(std::int64_t away_us);
  /// Cuts the machine from the daemon: what it sends, what it is sent, or both.
  void cut(std::int64_t us, bool up, bool down);
  /// Drains, and ends once its workers have nothing to do; then it is started again.
  void leave();
  /// True if messages of it arrive.
  bool speaks() const { return runs_ && world_.now_us >= cut_up_until_us_; }
  /// No worker of it has anything to run.
  bool is_empty() const;
  bool is_leaving() const { return leaving_; }

  /// A datagram of the daemon.
  void received(const std::string& datagram);

  void on_connected(PeerId connection) override;
  void on_lost(PeerId connection) override;
  void on_message(PeerId connection, wire::Message& message) override;

 private:
  void report();
  void send_report(const char* verb);
  void beat();
  void look_whether_empty();
  void end();
  void stop();

  World& world_;
  Network& network_;
  ControlPlane& daemon_;
  const std::string name_;
  const int index_;
  std::vector<WorkerNode*> workers_;
  bool runs_ = false, leaving_ = false;
  std::uint64_t life_ = 0, reports_ = 0;
  PeerId connection_ = 0;
  std::int64_t cut_up_until_us_ = 0, cut_down_until_us_ = 0;
  std::int64_t left_at_us_ = 0;  // since when it drains to end
  wire::LivenessSession session_;
  std::uint64_t sent_ = 0, received_ = 0;  // counters of datagrams
};

}  // namespace holdfast::simulation
