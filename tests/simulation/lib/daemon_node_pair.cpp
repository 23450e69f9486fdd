// The daemon of a simulation as the primary of a pair (control/daemon/daemon_standby.cpp).
#include <utility>

#include "tests/simulation/lib/daemon_node.h"

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kSilenceUs = 500 * kMs;  // ha.silence_ms
constexpr std::int64_t kHandOverUs = 2 * kSecond;

}  // namespace

void DaemonNode::start_as(const replication::FoundRole& role, bool took_over) {
  role_ = role;
  if (took_over) {
    world_.hit(Fault::kTakenOver);
    world_.taken_over = world_.power_failed = true;
    // Tokens that were not waited for may be missing, as after a loss of power.
    power_failed_ = took_over_ = true;
  }
  auditor_.term_began(role.term);
  boot();
}

void DaemonNode::lose_machine() {
  die(true, "the machine is lost");
  power_failed_ = false;
}

std::string DaemonNode::pair_state() const {
  return primary_ ? primary_->status().state : std::string();
}

void DaemonNode::open_pair() {
  record_calls_ =
      std::make_unique<SimRecordCalls>(world_, *seat_.record, seat_.url, *seat_.record_cut_until_us,
                                       [this] { wake_at(world_.now_us); });
  replication::PrimaryOptions options;
  options.url = seat_.url;
  options.term = role_.term;
  options.in_step = role_.in_step;
  options.clock = &clock_;
  options.record = &*record_calls_;
  primary_ = std::make_unique<replication::Primary>(
      std::move(options), *shipping_,
      [this](core::PeerId to, const wire::Message& message) { return send(to, message); });
}

/// Does what the daemon does in each group. False: it has ended, as another machine is the primary.
bool DaemonNode::tick_pair() {
  if (!primary_) return true;
  primary_->set_rules(world_.swarm.pair_strict, world_.swarm.pair_synced, kSilenceUs);
  const Result<void> done = failure_ ? Result<void>(*failure_) : primary_->tick(world_.now_us);
  if (!done) {
    world_.say([&] { return "the pair: " + done.error().what; });
    if (done.error().code == Errc::kConflict) world_.hit(Fault::kDeposed);
    die(false, "it is not the primary");
    return false;
  }
  const bool missing = !primary_->may_answer();
  if (missing != commit_loop_->machine().core().standby_missing) {
    commit_loop_->step(core::StandbyLevel{missing});
  }
  return true;
}

void DaemonNode::hear_standby(PeerId peer, const wire::Message& message) {
  if (!primary_) return;
  if (const auto* hello = std::get_if<wire::StandbyHello>(&message)) {
    if (const auto done = primary_->hello(peer, *hello, world_.now_us); !done) {
      failure_ = done.error();
    }
  } else if (const auto* shipped = std::get_if<wire::Shipped>(&message)) {
    primary_->shipped(peer, *shipped, world_.now_us);
  }
}

/// Takes what the standby confirms while a group is under way. False: not such a message.
bool DaemonNode::hear_while_busy(PeerId peer, Role role, const wire::Message& message) {
  if (role != Role::kStandby || !busy_ || !primary_->is_standby(peer)) return false;
  const auto* shipped = std::get_if<wire::Shipped>(&message);
  if (shipped == nullptr) return false;
  primary_->shipped(peer, *shipped, world_.now_us);
  if (awaits_ && primary_->confirmed()) end_wait();
  if (followed_ && primary_->is_followed()) {
    world_.hit(Fault::kSwitchedOver);
    die(false, "the standby has taken over");
  }
  return true;
}

/// The group is on this disk. Its promises leave once the standby has them, or is given up.
void DaemonNode::await_standby(std::int64_t local_sync_us) {
  if (!primary_ || !must_confirm_ || primary_->confirmed()) return finish_group();
  awaits_ = true;
  const std::uint64_t life = life_;
  const std::uint64_t round = ++waits_;
  world_.after(std::max<std::int64_t>(kSilenceUs - local_sync_us, 0), [this, life, round] {
    if (life != life_ || !awaits_ || round != waits_) return;
    world_.hit(Fault::kStandbyGivenUp);
    primary_->give_up("it did not confirm a commit in time");
    end_wait();
  });
}

void DaemonNode::end_wait() {
  awaits_ = false;
  finish_group();
}

void DaemonNode::switch_over() {
  if (!up_) return;
  switching_ = true;
  wake_at(world_.now_us);
}

/// Asks the standby to go on in this machine's stead, if that was asked of this one. True: nothing
/// else happens until it has, or the time is over.
bool DaemonNode::hand_over() {
  if (!std::exchange(switching_, false) || !primary_) return false;
  if (!primary_->hand_over(world_.now_us)) return false;
  busy_ = followed_ = true;
  const std::uint64_t life = life_;
  world_.after(kHandOverUs, [this, life] {
    if (life != life_) return;
    followed_ = busy_ = false;
    wake_at(world_.now_us);
  });
  return true;
}

/// Answers that waited leave once the standby has them, or none is there by the record.
void DaemonNode::release_held() {
  if (held_.empty() || (primary_ && !primary_->may_answer())) return;
  for (const daemon::HeldAnswers::Answer& answer : held_.release()) {
    std::visit([this](const auto& a) { deliver_one(a); }, answer);
  }
}

}  // namespace holdfast::simulation
