#pragma once
// The machines that may run the daemon: one, or a pair with the record of who is the primary and
// the link between them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/lib/machine_node.h"

namespace holdfast::simulation {

class ControlPlane {
 public:
  ControlPlane(World& world, Network& network, Auditor& auditor, std::uint64_t disk_seed);

  SimDisk& disk() { return machines_.front()->disk(); }
  void start();

  // ---- the daemon that serves: the one of the latest term
  bool up() const { return serving() != nullptr; }
  const core::Machine& machine() const { return serving()->machine(); }
  /// Passes an event on to the daemon that serves. False if none does.
  bool operate(const core::Event& event);
  /// Sends a datagram of a node to the daemon that has this connection of it.
  void send_datagram(PeerId connection, int node, std::string datagram);
  void set_on_datagram(const std::function<void(int node, const std::string&)>& run) {
    on_datagram_ = run;
  }
  /// An operator ends the daemon in order; in a pair the standby goes on.
  void shut_down(std::int64_t limit_ms);

  // ---- accidents
  void kill();
  void power_failure();
  void set_disk_full(bool full);
  void set_storage_low(bool low);
  void damage_at_next_death();
  /// Accidents of a pair, each with a probability of this seed.
  void disturb(std::int64_t every_us);
  void set_on_power_failure(const std::function<void()>& run);

  void heal();
  /// Does what an operator does to let everything go on.
  void help();
  /// True if a daemon serves and, in a pair, its standby has everything.
  bool is_well() const;
  void stop_and_audit();
  std::string state() const;
  void add_disk_counts(Counts& counts) const;

 private:
  DaemonNode* serving() const;
  MachineNode& any() { return *machines_[world_.random.below(machines_.size())]; }
  MachineNode& other_than(const MachineNode& machine) {
    return &machine == machines_[0].get() ? *machines_[1] : *machines_[0];
  }
  MachineNode* of_url(const std::string& url);
  bool is_sole(const MachineNode& machine) const;
  bool may_lose_power(const MachineNode& machine) const;
  void lose_primary();
  void cut_link();
  void make_pair(std::uint64_t disk_seed);
  void start_second();
  void audit_copy();

  World& world_;
  Network& network_;
  Auditor& auditor_;
  std::unique_ptr<SimRecord> record_;  // of a pair
  std::vector<std::unique_ptr<MachineNode>> machines_;
  std::function<void(int node, const std::string&)> on_datagram_;
  const MachineNode* lost_ = nullptr;  // its standby has the only copy until it serves
};

}  // namespace holdfast::simulation
