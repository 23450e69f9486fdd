#pragma once
// A machine that may run the daemon: its disk, and the process on it. Alone it is the daemon; in a
// pair the record says at each start of the process whether it is the primary or the standby.

#include <memory>
#include <optional>
#include <string>

#include "tests/simulation/lib/daemon_node.h"
#include "tests/simulation/lib/sim_record.h"
#include "tests/simulation/lib/sim_state_files.h"
#include "tests/simulation/lib/standby_node.h"

namespace holdfast::simulation {

class MachineNode {
 public:
  MachineNode(World& world, Network& network, Auditor& auditor, int index, std::uint64_t disk_seed);

  SimDisk& disk() { return disk_; }
  DaemonNode& daemon() { return daemon_; }
  const DaemonNode& daemon() const { return daemon_; }
  StandbyNode& standby() { return standby_; }
  const std::string& url() const { return url_; }

  /// Makes it one of a pair; called before anything runs.
  void join_pair(SimRecord& record, std::function<Listener*(const std::string&)> find);
  void start();

  // ---- accidents of a machine in a pair, whatever runs on it
  void kill();
  void power_failure();
  /// The machine is gone with its disk; another one, empty, takes its URL after a while.
  void lose();
  void heal();
  void cut_off_record(std::int64_t until_us) { record_cut_until_us_ = until_us; }

  bool is_complete_standby() const { return standby_.is_complete(); }
  /// True while its own start is refused because the record names it and its database is not whole.
  bool is_refused() const { return refused_; }

 private:
  void find_role();
  void set_faults();
  void role_found(const replication::RecordAnswer& answer);
  void start_again(std::int64_t after_us);
  void copy_failed(const std::string& why);

  World& world_;
  SimDisk disk_;
  DaemonNode daemon_;
  SimStateFiles files_;
  StandbyNode standby_;
  const std::string url_;
  SimRecord* record_ = nullptr;
  std::int64_t record_cut_until_us_ = 0;
  std::optional<SimRecordCalls> claim_;
  std::uint64_t life_ = 0;
  bool started_ = false, refused_ = false;
};

}  // namespace holdfast::simulation
