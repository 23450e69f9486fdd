#include "tests/simulation/lib/control_plane.h"

#include <algorithm>

namespace holdfast::simulation {
ControlPlane::ControlPlane(World& world, Network& network, Auditor& auditor,
                           std::uint64_t disk_seed)
    : world_(world), network_(network), auditor_(auditor) {
  machines_.push_back(std::make_unique<MachineNode>(world, network, auditor, 0, disk_seed));
  if (world.swarm.pair) make_pair(disk_seed);
  for (const auto& machine : machines_) {
    machine->daemon().on_datagram = [this](int node, std::string datagram) {
      if (world_.accident(world_.swarm.datagram_loss)) return world_.hit(Fault::kDatagramLost);
      world_.after(world_.random.between(20, world_.swarm.delay_us),
                   [this, node, datagram = std::move(datagram)] { on_datagram_(node, datagram); });
    };
  }
}

void ControlPlane::make_pair(std::uint64_t disk_seed) {
  record_ = std::make_unique<SimRecord>(world_);
  machines_.push_back(std::make_unique<MachineNode>(world_, network_, auditor_, 1, disk_seed + 1));
  for (const auto& machine : machines_) {
    machine->join_pair(*record_, [this](const std::string& url) -> Listener* {
      MachineNode* found = of_url(url);
      return found == nullptr ? nullptr : &found->daemon();
    });
  }
}

MachineNode* ControlPlane::of_url(const std::string& url) {
  const auto found = std::find_if(machines_.begin(), machines_.end(),
                                  [&](const auto& machine) { return machine->url() == url; });
  return found == machines_.end() ? nullptr : found->get();
}

void ControlPlane::start() {
  machines_.front()->start();
  if (record_) start_second();
}

/// The second machine is made once the first one is the record's primary.
void ControlPlane::start_second() {
  world_.after(50 * kMs, [this] {
    if (record_->now().version == 0) return start_second();
    machines_.back()->start();
  });
}

DaemonNode* ControlPlane::serving() const {
  DaemonNode* best = nullptr;
  for (const auto& machine : machines_) {
    DaemonNode& daemon = machine->daemon();
    if (daemon.up() && (best == nullptr || daemon.term() > best->term())) best = &daemon;
  }
  return best;
}

bool ControlPlane::operate(const core::Event& event) {
  DaemonNode* last = serving();
  // A primary of an earlier term that is up still may have workers.
  const auto* health = std::get_if<core::WorkerHealth>(&event);
  const bool of_worker = health != nullptr || std::holds_alternative<core::WorkerExit>(event);
  for (const auto& machine : machines_) {
    DaemonNode& daemon = machine->daemon();
    const bool concerns = health == nullptr || daemon.knows(health->peer);
    if (&daemon != last && of_worker && concerns) daemon.operate(event);
  }
  if (last == nullptr) return false;
  if (record_ && health != nullptr && !last->knows(health->peer)) return false;
  return last->operate(event);
}

void ControlPlane::send_datagram(PeerId connection, int node, std::string datagram) {
  const Listener* listener = network_.listener_of(connection);
  for (const auto& machine : machines_) {
    if (&machine->daemon() != listener) continue;
    world_.after(world_.random.between(20, world_.swarm.delay_us),
                 [to = &machine->daemon(), node, datagram = std::move(datagram)] {
                   to->datagram(node, datagram);
                 });
    return;
  }
}

void ControlPlane::shut_down(std::int64_t limit_ms) {
  if (!up()) return;
  if (record_) return serving()->switch_over();
  serving()->operate(core::Shutdown{limit_ms});
}

// ---- accidents

void ControlPlane::kill() {
  if (!record_) return machines_.front()->daemon().kill();
  any().kill();
}

bool ControlPlane::may_lose_power(const MachineNode& machine) const {
  return lost_ == nullptr || lost_ == &machine;
}

void ControlPlane::power_failure() {
  if (!record_) return machines_.front()->daemon().power_failure();
  MachineNode& machine = any();
  if (may_lose_power(machine)) machine.power_failure();
}

void ControlPlane::set_disk_full(bool full) {
  if (!record_) return machines_.front()->daemon().set_disk_full(full);
  for (const auto& machine : machines_) machine->daemon().set_disk_full(full && up());
}

void ControlPlane::set_storage_low(bool low) {
  for (const auto& machine : machines_) machine->daemon().set_storage_low(low);
}

void ControlPlane::damage_at_next_death() {
  if (!record_) machines_.front()->daemon().damage_at_next_death();
}

void ControlPlane::set_on_power_failure(const std::function<void()>& run) {
  machines_.front()->daemon().on_power_failure = run;
}

void ControlPlane::disturb(std::int64_t every_us) {
  if (!record_) return;
  const Swarm& s = world_.swarm;
  SimRandom& r = world_.random;
  const auto now_and_then = [&](double per_second) {
    return world_.accident(per_second * static_cast<double>(every_us) / kSecond);
  };
  if (lost_ != nullptr && up() && serving() != &lost_->daemon()) lost_ = nullptr;
  if (now_and_then(s.machine_lost)) lose_primary();
  if (now_and_then(s.link_cut)) cut_link();
  if (now_and_then(s.record_away)) {
    world_.hit(Fault::kRecordAway);
    const std::int64_t until_us = world_.now_us + r.between(50, 4000) * kMs;
    if (r.below(2) == 0) {
      record_->set_away(until_us);
    } else {
      any().cut_off_record(until_us);
    }
  }
  // A standby that the record has made the primary, and that does not know it yet.
  MachineNode* next = of_url(record_->now().record.primary);
  if (next != nullptr && next->standby().runs() && may_lose_power(*next) &&
      world_.accident(s.power_at_takeover)) {
    next->power_failure();
  }
  if (now_and_then(s.switch_over) && up()) serving()->switch_over();
}

/// Loses the primary's machine with its disk, where its standby has everything by the record.
void ControlPlane::lose_primary() {
  const replication::Record& now = record_->now().record;
  MachineNode* primary = of_url(now.primary);
  if (primary == nullptr || lost_ != nullptr) return;
  MachineNode& standby = other_than(*primary);
  if (now.in_step != standby.url() || !standby.is_complete_standby()) return;
  audit_copy();
  lost_ = primary;
  primary->lose();
}

/// Cuts the two machines from each other, one way or both; often one of them from the record too.
void ControlPlane::cut_link() {
  SimRandom& r = world_.random;
  const std::int64_t us = r.between(100, 4000) * kMs;
  const std::uint64_t way = r.below(3);
  for (const auto& machine : machines_) {
    const PeerId link = machine->standby().connection();
    if (link == 0) continue;
    world_.hit(way == 2 ? Fault::kLinkCut : Fault::kLinkCutOneWay);
    network_.hold(link, way != 0 ? us : 0, way != 1 ? us : 0);
    if (way == 2 && r.below(2) == 0) network_.isolate(&machine->standby(), world_.now_us + us);
  }
  MachineNode* primary = of_url(record_->now().record.primary);
  if (primary != nullptr && r.below(2) == 0) primary->cut_off_record(world_.now_us + us);
}

// ---- healing and the end

void ControlPlane::heal() {
  set_disk_full(false);
  set_storage_low(false);
  if (!record_) return;
  record_->set_away(0);
  for (const auto& machine : machines_) machine->heal();
}

void ControlPlane::help() {
  if (!record_) return;
  const SimRecord::Versioned now = record_->now();
  MachineNode* primary = of_url(now.record.primary);
  if (primary == nullptr || !primary->is_refused() || !now.record.in_step.empty()) return;
  // The copy was lost between the record and its sync: the former primary's disk has everything.
  world_.say([] { return std::string("an operator names the former primary"); });
  (void)record_->write({now.record.term + 1, other_than(*primary).url(), {}}, now.version);
}

bool ControlPlane::is_well() const {
  return up() && (!record_ || serving()->pair_state() == "in_step");
}

/// I18: the copy of a standby that the record calls in step has whatever was acknowledged.
void ControlPlane::audit_copy() {
  const replication::Record& now = record_->now().record;
  MachineNode* standby = of_url(now.in_step);
  if (standby == nullptr || !standby->is_complete_standby()) return;
  world_.hit(Fault::kCopyAudited);
  SimDisk copy(1);
  copy.load_image(standby->disk().image());
  auditor_.look_at_copy(read_rows(copy.name(), kPath));
}

void ControlPlane::stop_and_audit() {
  if (record_) audit_copy();
  DaemonNode* last = serving();
  for (const auto& machine : machines_) {
    machine->standby().stop();
    if (&machine->daemon() != last) machine->daemon().stop();
  }
  last->stop_and_audit();
}

std::string ControlPlane::state() const {
  std::string text;
  for (const auto& machine : machines_) {
    text += machine->url() + " term " + std::to_string(machine->daemon().term()) + " pair \"" +
            machine->daemon().pair_state() + "\"" + (machine->standby().runs() ? " standby" : "") +
            (machine->is_refused() ? " refused" : "") + "\n" +
            machine->daemon().commit_loop_state() + "\n";
  }
  return text;
}

void ControlPlane::add_disk_counts(Counts& counts) const {
  for (const auto& machine : machines_) machine->daemon().add_disk_counts(counts);
}

}  // namespace holdfast::simulation
