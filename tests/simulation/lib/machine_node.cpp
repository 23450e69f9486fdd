#include "tests/simulation/lib/machine_node.h"

#include <utility>

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kAgainUs = 250 * kMs;  // the record did not answer

}  // namespace

MachineNode::MachineNode(World& world, Network& network, Auditor& auditor, int index,
                         std::uint64_t disk_seed)
    : world_(world),
      disk_(disk_seed),
      daemon_(world, disk_, network, auditor),
      files_(disk_),
      standby_(world, network, files_),
      url_("tcp://machine" + std::to_string(index)) {
  if (index > 0) daemon_.name_boot("boot-of-" + std::to_string(index));
}

void MachineNode::join_pair(SimRecord& record, std::function<Listener*(const std::string&)> find) {
  record_ = &record;
  daemon_.join_pair(
      {&record, url_, &record_cut_until_us_, [this](std::int64_t after_us, bool power) {
         if (power) files_.rebooted();
         start_again(after_us);
       }});
  StandbyNode::Seat seat;
  seat.record = &record;
  seat.url = url_;
  seat.record_cut_until_us = &record_cut_until_us_;
  seat.find = std::move(find);
  seat.promoted = [this](const replication::StandbyEnd& end) {
    standby_.stop();
    // The daemon's process is the standby's: it goes on at once.
    daemon_.start_as({true, end.term, {}}, true);
  };
  seat.disk = &disk_;
  seat.failed = [this](const std::string& why) { copy_failed(why); };
  standby_.sit_down(std::move(seat));
}

void MachineNode::start() {
  if (record_ == nullptr) return daemon_.start();
  started_ = true;
  disk_.start_process();
  find_role();
}

// ---- the role

void MachineNode::find_role() {
  claim_.emplace(world_, *record_, url_, record_cut_until_us_, [this] {
    const auto answer = claim_->take();
    if (answer) role_found(*answer);
  });
  const auto note = replication::read_standby_note(kStateDir, files_);
  claim_->start([url = url_, note](replication::RecordStore& store) {
    return replication::claim_role(store, url, note);
  });
}

void MachineNode::role_found(const replication::RecordAnswer& answer) {
  claim_.reset();
  const std::uint64_t life = life_;
  if (answer.outcome == replication::RecordAnswer::Outcome::kUnreachable) {
    return world_.after(kAgainUs, [this, life] {
      if (life == life_) find_role();
    });
  }
  const auto note = replication::read_standby_note(kStateDir, files_);
  const auto role = replication::take_role(kStateDir, url_, answer, files_);
  refused_ = !role && role.error().code == Errc::kCorrupt;
  if (!role) {
    world_.say([&] { return url_ + ": " + role.error().what; });
    if (refused_) world_.hit(Fault::kStartRefused);
    return start_again(500 * kMs);
  }
  world_.say([&] { return url_ + (role->is_primary ? ": primary" : ": standby"); });
  if (role->is_primary) return daemon_.start_as(*role, note && note->is_standby);
  set_faults();
  standby_.start(kStateDir, answer.record);
}

/// The faults of this seed for the disk of a standby, which no database is read from.
void MachineNode::set_faults() {
  DiskFaults faults;
  if (!world_.healed) {
    faults.write_eio = world_.swarm.write_eio;
    faults.sync_eio = world_.swarm.sync_eio;
    faults.disk_full = world_.swarm.write_full;
  }
  disk_.set_faults(faults);
}

void MachineNode::heal() {
  record_cut_until_us_ = 0;
  if (!daemon_.up()) disk_.set_faults({});
}

// ---- the process

void MachineNode::start_again(std::int64_t after_us) {
  const std::uint64_t life = ++life_;
  world_.after(after_us, [this, life] {
    if (life == life_) start();
  });
}

/// The standby's own disk failed, or its process died inside an operation of it.
void MachineNode::copy_failed(const std::string& why) {
  world_.say([&] { return url_ + ": the copy: " + why; });
  world_.hit(disk_.died() ? Fault::kStandbyKilledInWrite : Fault::kCopyFailed);
  standby_.stop();
  disk_.die_after(0);
  if (!disk_.died()) disk_.process_death();
  start_again(world_.random.between(5, 400) * kMs);
}

void MachineNode::kill() {
  if (!started_) return;
  if (daemon_.up()) return daemon_.kill();
  if (standby_.runs()) world_.hit(Fault::kStandbyKilled);
  standby_.stop();
  claim_.reset();
  disk_.process_death();
  start_again(world_.random.between(5, 400) * kMs);
}

void MachineNode::power_failure() {
  if (!started_) return;
  claim_.reset();
  if (!standby_.runs()) {
    start_again(world_.random.between(5, 3000) * kMs);
    return daemon_.power_failure();
  }
  world_.hit(Fault::kStandbyPower);
  standby_.stop();
  files_.rebooted();
  disk_.power_failure();
  start_again(world_.random.between(5, 3000) * kMs);
}

void MachineNode::lose() {
  world_.hit(Fault::kMachineLost);
  record_->lose_calls_of(url_);
  standby_.stop();
  claim_.reset();
  daemon_.lose_machine();
  disk_.lose_all();
  start_again(world_.random.between(100, 3000) * kMs);
}

}  // namespace holdfast::simulation
