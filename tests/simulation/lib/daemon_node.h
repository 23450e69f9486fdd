#pragma once
// The daemon of a simulation: the real daemon's commit loop over the real store on the lying disk.
// The daemon may die at any point, and starts again. In a pair it is the primary while it runs: the
// real primary ships what the disk gets, and answers wait as in the daemon.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "control/daemon/commit_loop.h"
#include "control/daemon/held_answers.h"
#include "control/endpoints/node_watch.h"
#include "control/replication/primary.h"
#include "control/replication/role_rules.h"
#include "tests/simulation/lib/auditor.h"
#include "tests/simulation/lib/network.h"
#include "tests/simulation/lib/sim_record.h"
#include "tests/simulation/lib/sim_store_disk.h"
#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

/// The clocks of the simulation.
struct SimClock final : Clock {
  explicit SimClock(const World& of) : world(of) {}
  std::int64_t monotonic_us() const override { return world.now_us; }
  std::int64_t wall_ms() const override { return world.wall_ms(); }
  const World& world;
};

/// The place of a daemon in a pair: its machine starts it again once it knows its role.
struct PairSeat {
  SimRecord* record = nullptr;
  std::string url;
  const std::int64_t* record_cut_until_us = nullptr;
  std::function<void(std::int64_t after_us, bool power)> ended;
};

class DaemonNode final : public daemon::CommitLoopHost, public Listener {
 public:
  DaemonNode(World& world, SimDisk& disk, Network& network, Auditor& auditor);
  ~DaemonNode() override;

  void start();
  void kill();
  void power_failure();
  /// Sits down in a pair; called before anything runs.
  void join_pair(PairSeat seat) { seat_ = std::move(seat); }
  /// Starts as the primary of a term. `took_over`: with the copy that this machine had as a
  /// standby.
  void start_as(const replication::FoundRole& role, bool took_over);
  /// The machine is gone with its disk.
  void lose_machine();
  /// Has the standby take over in order, as before an upgrade. Nothing happens if none is in step.
  void switch_over();
  /// Names the boots of this machine, which differ from those of others.
  void name_boot(std::string id) { store_disk_.boot_id_ = std::move(id); }
  std::uint64_t term() const { return role_.term; }
  /// The primary's own word for its pair, "in_step" …; empty: no daemon runs.
  std::string pair_state() const;
  /// A datagram of a node has arrived.
  void datagram(int node, const std::string& datagram);
  /// Sends a datagram to a node.
  std::function<void(int node, std::string datagram)> on_datagram;
  bool knows(PeerId peer) const { return roles_.count(peer) > 0; }
  /// Passes an operator's event on, if the daemon is up. False if it is not.
  bool operate(const core::Event& event);
  void set_disk_full(bool full);
  void set_storage_low(bool low) { store_disk_.free_bytes_ = low ? 0 : 1LL << 40; }
  void damage_at_next_death() { damage_ = true; }
  /// Dies a last time.
  void stop();
  /// Dies a last time and checks what the database must look like after everything.
  void stop_and_audit();
  std::string commit_loop_state() const;
  void add_disk_counts(Counts& counts) const;
  bool up() const { return up_; }
  const core::Machine& machine() const { return commit_loop_->machine(); }
  /// Called when a power failure takes the machine.
  std::function<void()> on_power_failure;

  // Listener
  bool listens() const override { return up_; }
  void on_peer_message(PeerId peer, Role role, wire::Message message) override;
  void on_peer_gone(PeerId peer) override;

  // CommitLoopHost
  core::Now now() const override { return {world_.now_us, world_.wall_ms()}; }
  void fill_token_bytes(const std::string&, wire::Event&) override {}
  std::string new_request_id() override { return "made"; }
  std::uint64_t new_seed() override { return 1; }
  std::string body_hash(wire::Submit&) override { return "hash"; }

 private:
  struct Incoming {
    PeerId peer;
    Role role;
    wire::Message message;
    bool gone = false;
  };
  void boot();
  void close_all();
  void die(bool power, const char* where);
  void look_at_rows();
  void damage_a_row();
  void set_faults();
  bool start_commit_loop();
  void wake_at(std::int64_t at_us);
  void wake();
  void take(Incoming& in);
  void inspected(PeerId peer, const wire::Inspected& m);
  void commit();
  void finish_group();
  void open_pair();
  bool tick_pair();
  bool hand_over();
  void hear_standby(PeerId peer, const wire::Message& message);
  bool hear_while_busy(PeerId peer, Role role, const wire::Message& message);
  void await_standby(std::int64_t local_sync_us);
  void end_wait();
  void release_held();
  void hear_node(PeerId peer, const wire::Message& message);
  void answer_node(const core::SendOpResult& result);
  void watch_nodes();
  void tell_nodes();
  Result<void> deliver(daemon::Released released);
  void deliver_one(const daemon::Delivery& delivery);
  void deliver_one(const core::SendOpResult& result);
  wire::SendStatus send(core::PeerId to, wire::Message message);
  void note(const core::Note& note);
  void add_counts();

  World& world_;
  SimDisk& disk_;
  StoreDisk store_disk_;
  Network& network_;
  Auditor& auditor_;
  core::Config config_;
  const SimClock clock_;
  PairSeat seat_;
  replication::FoundRole role_;
  std::unique_ptr<replication::ShippingDisk> shipping_;  // in a pair
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<daemon::CommitLoop> commit_loop_;
  std::unique_ptr<SimRecordCalls> record_calls_;  // in a pair
  std::unique_ptr<replication::Primary> primary_;
  daemon::HeldAnswers held_;
  std::optional<Error> failure_;
  daemon::NodeWatch node_watch_;
  std::deque<Incoming> inbox_;
  std::deque<core::Event> orders_;
  std::map<PeerId, Role> roles_;
  std::uint64_t life_ = 0, waits_ = 0, turns_ = 0;
  std::int64_t wake_at_us_ = -1;
  std::int64_t sends_left_ = -1;  // then the process is gone
  bool up_ = false, busy_ = false, power_failed_ = false, full_ = false, damage_ = false;
  bool full_group_ = false;    // the group in progress is of durability FULL
  bool must_confirm_ = false;  // … and its answers wait for the standby
  bool took_over_ = false;     // the rows are a copy that nobody has looked at
  bool awaits_ = false, followed_ = false, switching_ = false;
};

}  // namespace holdfast::simulation
