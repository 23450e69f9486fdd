// The daemon as the primary of a pair: its standby has what answers tell before they leave.
#include <nlohmann/json.hpp>

#include "control/core/admission.h"
#include "control/daemon/daemon.h"
#include "control/replication/role_rules.h"
#include "control/replication/standby_note.h"
#include "shared/base/log.h"

namespace holdfast::daemon {
namespace {

constexpr int kWaitMs = 10;
constexpr std::int64_t kHandOverUs = 2'000'000;

}  // namespace

/// Begins to ship the database to whoever asks with the key of a standby.
void Daemon::open_pair() {
  replication::PrimaryOptions options;
  options.url = options_.pair.url.empty() ? routers_.back().bound_endpoint() : options_.pair.url;
  options.term = options_.pair.record != nullptr
                     ? options_.pair.term
                     : replication::term_of_epoch(commit_loop_->machine().core().fences.epoch());
  options.in_step = options_.pair.in_step;
  if (options_.pair.record != nullptr) {
    record_calls_.emplace(*options_.pair.record, [this] { wake_.notify(); });
    options.record = &*record_calls_;
  }
  primary_.emplace(
      std::move(options), *disk_,
      [this](core::PeerId to, const wire::Message& message) { return send(to, message); });
}

/// kConflict: another machine is the primary.
Result<void> Daemon::tick_pair(std::int64_t now_us) {
  if (!primary_) return {};
  const core::Config& config = commit_loop_->machine().config();
  primary_->set_rules(config.ha_strict != 0, config.ha_synced != 0, config.ha_silence_ms * 1000);
  HOLDFAST_CHECKED(primary_->tick(now_us));
  const bool missing = !primary_->may_answer();
  if (missing != commit_loop_->machine().core().standby_missing) {
    commit_loop_->step(core::StandbyLevel{missing});
  }
  return {};
}

void Daemon::hear_standby(core::PeerId peer, const wire::Message& message) {
  const std::int64_t now_us = clock_.monotonic_us();
  if (const auto* hello = std::get_if<wire::StandbyHello>(&message)) {
    const auto done = primary_->hello(peer, *hello, now_us);
    if (!done) failure_ = done.error();
  } else if (const auto* shipped = std::get_if<wire::Shipped>(&message)) {
    primary_->shipped(peer, *shipped, now_us);
  }
}

/// Receives from other machines until the condition holds or the time is over. Messages of others
/// than the standby wait for the next group.
template <class Until>
void Daemon::hear_standby_until(std::int64_t end_us, const Until& until) {
  RouterEndpoint& router = routers_.back();
  while (!until() && clock_.monotonic_us() < end_us) {
    std::vector<wire::WaitItem> items = {{&router.socket(), -1, false}};
    wire::wait_readable(items, kWaitMs);
    router.watch_links(clock_.monotonic_us());
    router.probe(clock_.monotonic_us());
    for (const core::PeerId peer : router.take_gone()) {
      primary_->peer_gone(peer);
      gone_.push_back(peer);
      roles_.erase(peer);
    }
    while (auto in = router.receive(last_peer_)) {
      roles_[in->peer] = Role::kElsewhere;
      const bool confirms = std::holds_alternative<wire::Shipped>(in->message);
      if (confirms && primary_->is_standby(in->peer)) {
        primary_->shipped(in->peer, std::get<wire::Shipped>(in->message), clock_.monotonic_us());
      } else {
        early_.push_back(std::move(*in));
      }
    }
    probe_->answer();
  }
}

/// Sends the group that was committed, and waits for promises until the standby has them, or is
/// given up.
void Daemon::ship_commit(core::Durability durability) {
  const std::int64_t now_us = clock_.monotonic_us();
  if (!primary_->ship_commit(durability, now_us)) return;
  const std::int64_t silence_us = commit_loop_->machine().config().ha_silence_ms * 1000;
  hear_standby_until(now_us + silence_us, [this] { return primary_->confirmed(); });
  if (!primary_->confirmed()) primary_->give_up("it did not confirm a commit in time");
}

/// Asks the standby to go on in this machine's stead. False if none is in step, or if it did not
/// answer.
bool Daemon::hand_over() {
  if (!primary_ || !primary_->hand_over(clock_.monotonic_us())) return false;
  hear_standby_until(clock_.monotonic_us() + kHandOverUs,
                     [this] { return primary_->is_followed(); });
  if (!primary_->is_followed()) return false;
  if (record_calls_) return true;
  // Nothing but this note says at the next start that this machine is the standby now.
  replication::StandbyNote note;
  note.is_standby = true;
  note.primary = primary_->status().standby;
  note.term = primary_->status().term + 1;
  const auto written = replication::write_standby_note(options_.state_dir, note);
  if (!written) log::error("the standby is the primary now", {{"why", written.error().what}});
  return true;
}

/// Answers that waited leave once the standby has them, or none is there by the record.
void Daemon::release_held() {
  if (held_answers_.empty() || (primary_ && !primary_->may_answer())) return;
  for (const HeldAnswers::Answer& answer : held_answers_.release()) {
    std::visit([this](const auto& a) { deliver_one(a); }, answer);
  }
}

std::optional<ProcessFacts::Pair> Daemon::pair_facts() const {
  if (!primary_) return std::nullopt;
  replication::Primary::Status status = primary_->status();
  if (!record_calls_ && status.state == "alone") return std::nullopt;
  return ProcessFacts::Pair{std::move(status.state), std::move(status.standby), status.term,
                            status.unconfirmed, status.shipped_bytes};
}

/// Answers ha.status and ha.switch. Returns false for other verbs.
bool Daemon::answer_pair(core::PeerId peer, const wire::Op& op) {
  if (op.verb != "ha.status" && op.verb != "ha.switch") return false;
  wire::OpResult result;
  result.tag = op.tag;
  nlohmann::json document = {{"role", primary_ ? "primary" : "alone"}};
  if (primary_) {
    const replication::Primary::Status status = primary_->status();
    document = {{"role", "primary"},
                {"url", primary_->url()},
                {"term", status.term},
                {"state", status.state},
                {"standby", status.standby},
                {"record", record_calls_.has_value()},
                {"record_trouble", status.record},
                {"held_answers", held_answers_.size()},
                {"shipped_bytes", status.shipped_bytes},
                {"unconfirmed", status.unconfirmed}};
  }
  const bool switches = op.verb == "ha.switch";
  if (switches && (!primary_ || primary_->status().state != "in_step")) {
    result.refusal =
        core::refuse(Errc::kConflict,
                     "ha.switch: no standby is in step; `holdfast ha status` says what is missing");
  } else {
    result.ok = true;
    result.result = document.dump();
    switching_ = switching_ || switches;
  }
  (void)send(peer, result);
  return true;
}

}  // namespace holdfast::daemon
