#pragma once
// The daemon of a simulation: the real daemon's commit loop over the real store on the lying disk.
// It may die at any point, and starts again.

#include <deque>
#include <memory>
#include <string>

#include "control/daemon/commit_loop.h"
#include "control/store/disk.h"
#include "tests/simulation/lib/auditor.h"
#include "tests/simulation/lib/network.h"
#include "tests/simulation/lib/sim_vfs.h"
#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

/// A small file next to the simulated database, until its process dies.
class StoreFile final : public store::DiskFile {
 public:
  StoreFile(SimDisk& disk, std::string path)
      : disk_(disk), path_(std::move(path)), generation_(disk.generation()) {}
  std::string read(std::int64_t at, std::size_t bytes) override {
    return disk_.peek(path_, at, bytes);
  }
  bool write(std::int64_t at, std::string_view bytes) override {
    if (generation_ == disk_.generation()) disk_.poke(path_, at, bytes);
    return generation_ == disk_.generation();
  }
  bool sync() override {
    if (generation_ == disk_.generation()) disk_.settle(path_);
    return generation_ == disk_.generation();
  }

 private:
  SimDisk& disk_;
  std::string path_;
  std::uint64_t generation_;
};

/// The simulated disk as the store sees it.
class StoreDisk final : public store::Disk {
 public:
  explicit StoreDisk(SimDisk& disk) : disk_(disk) {}
  const char* vfs() const override { return disk_.name(); }
  Result<void> rewrite(const std::string& path) override { return disk_.rewrite(path); }
  Result<void> sync_directory(const std::string&) override {
    disk_.sync_names();
    return {};
  }
  std::int64_t free_bytes(const std::string&) override { return free_bytes_; }
  bool remove(const std::string&) override { return false; }
  void allocate(const std::string&, std::int64_t) override {}
  std::unique_ptr<store::DiskFile> open_file(const std::string& path, std::int64_t) override {
    return std::make_unique<StoreFile>(disk_, path);
  }
  std::uint64_t inode(const std::string&) override { return 1; }
  void pause_ms(int) override {}
  std::string boot_id() override { return boot_id_; }
  std::string boot_id_ = "boot";
  std::int64_t free_bytes_ = 1LL << 40;

 private:
  SimDisk& disk_;
};

class DaemonNode final : public daemon::CommitLoopHost, public Listener {
 public:
  DaemonNode(World& world, SimDisk& disk, Network& network, Auditor& auditor);
  ~DaemonNode() override;

  void start();
  void kill();
  void power_failure();
  /// Passes an operator's event on, if the daemon is up. False if it is not.
  bool operate(const core::Event& event);
  void set_disk_full(bool full);
  void set_storage_low(bool low) { store_disk_.free_bytes_ = low ? 0 : 1LL << 40; }
  void damage_at_next_death() { damage_ = true; }
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
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<daemon::CommitLoop> commit_loop_;
  std::deque<Incoming> inbox_;
  std::deque<core::Event> orders_;
  std::map<PeerId, Role> roles_;
  std::uint64_t life_ = 0;
  std::int64_t wake_at_us_ = -1;
  std::int64_t sends_left_ = -1;  // then the process is gone
  bool up_ = false, busy_ = false, power_failed_ = false, full_ = false, damage_ = false;
};

}  // namespace holdfast::simulation
