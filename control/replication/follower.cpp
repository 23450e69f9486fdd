#include "control/replication/follower.h"

#include <algorithm>
#include <utility>

#include "shared/base/log.h"

namespace holdfast::replication {
namespace {

constexpr std::int64_t kHelloAgainUs = 500'000;   // after a gap in what came
constexpr std::int64_t kHelloLostUs = 1'500'000;  // while nothing comes at all
constexpr std::int64_t kTakeAgainUs = 250'000;

}  // namespace

Follower::Follower(FollowerOptions options, Send send, std::int64_t now_us, StateFiles& files)
    : options_(std::move(options)),
      send_(std::move(send)),
      copy_(options_.state_dir, files),
      last_word_us_(now_us) {
  options_.term = std::max(options_.term, copy_.note().term);
  const std::string primary = options_.primary.empty() ? copy_.note().primary : options_.primary;
  copy_.follow(primary, options_.term);
}

Result<void> Follower::take(const wire::Ship& ship, std::int64_t now_us) {
  // An older primary that does not know yet that it is none.
  if (end_.promoted || ship.term < options_.term) return {};
  options_.term = ship.term;
  last_word_us_ = now_us;
  // A hello to a primary that only is slow would have it begin the copy anew.
  hello_due_us_ = now_us + kHelloLostUs;
  return write(ship, now_us);
}

Result<void> Follower::write(const wire::Ship& ship, std::int64_t now_us) {
  HOLDFAST_TRY(const CopyReceiver::Taken taken, copy_.take(ship));
  if (taken == CopyReceiver::Taken::kGap) {
    hello_due_us_ = std::max(now_us, hello_us_ + kHelloAgainUs);
    return {};
  }
  if (taken == CopyReceiver::Taken::kTakeOver && options_.record != nullptr) {
    requested_ = ship.number;  // confirmed once the record says so
    return {};
  }
  send_(wire::Shipped{ship.term, ship.number});
  if (taken == CopyReceiver::Taken::kTakeOver) return promote(ship.term + 1);
  return {};
}

Result<void> Follower::promote(std::uint64_t term) {
  HOLDFAST_CHECKED(copy_.promote(term));
  log::warn("this machine is the primary now",
            {{"term", term}, {"was", copy_.note().primary}, {"url", options_.url}});
  end_ = {true, term};
  return {};
}

Result<void> Follower::tick(std::int64_t now_us) {
  if (end_.promoted) return {};
  if (hello_due_us_ <= now_us) {
    hello_us_ = now_us;
    hello_due_us_ = now_us + kHelloLostUs;
    send_(wire::StandbyHello{options_.url, options_.term});
  }
  return check_record(now_us);
}

Result<void> Follower::check_record(std::int64_t now_us) {
  if (options_.record == nullptr) return {};
  if (const auto answer = options_.record->take()) {
    calls_us_ = now_us;
    HOLDFAST_CHECKED(take_answer(*answer, now_us));
    if (end_.promoted) return {};
  }
  if (options_.record->under_way() || (!is_silent(now_us) && requested_ == 0)) return {};
  if (now_us - calls_us_ >= (requested_ != 0 ? 0 : kTakeAgainUs)) start_call();
  return {};
}

Result<void> Follower::take_answer(const RecordAnswer& answer, std::int64_t now_us) {
  record_trouble_ = answer.why;
  if (answer.outcome == RecordAnswer::Outcome::kUnreachable) return {};
  const Record& record = answer.record;
  if (record.primary == options_.url && record.term > options_.term) {
    if (requested_ != 0) send_(wire::Shipped{options_.term, requested_});
    return promote(record.term);
  }
  if (record.primary != primary() && !record.primary.empty()) follow(record, now_us);
  return {};
}

void Follower::start_call() {
  // Only a whole copy can be what the record calls in step.
  if (copy_.note().complete) {
    options_.record->start([url = options_.url, term = options_.term](RecordStore& store) {
      return take_over(store, url, term);
    });
    return;
  }
  options_.record->start([](RecordStore& store) {
    const auto now = store.read();
    if (!now) return RecordAnswer{RecordAnswer::Outcome::kUnreachable, {}, now.error().what};
    return RecordAnswer{RecordAnswer::Outcome::kOther, now->record, {}};
  });
}

void Follower::follow(const Record& record, std::int64_t now_us) {
  options_.term = std::max(options_.term, record.term);
  requested_ = 0;
  copy_.follow(record.primary, options_.term);
  last_word_us_ = now_us;
}

Result<void> Follower::promote_by_hand(bool force, std::int64_t now_us) {
  const auto conflict = [](const std::string& why) { return Error{Errc::kConflict, why}; };
  if (!copy_.note().complete) {
    return conflict("this standby has no whole copy of the database yet");
  }
  if (options_.record != nullptr) {
    return conflict(
        "the record decides who is the primary; it takes over by itself, or ask the primary with "
        "`holdfast ha switch`");
  }
  if (!force && !is_silent(now_us)) {
    return conflict("the primary " + primary() +
                    " lives; ask it with `holdfast ha switch`, or repeat with --force if it is cut "
                    "off from its clients");
  }
  if (!force && !copy_.note().in_step) {
    return conflict(
        "the primary went on without this standby, so that accepted requests may be missing here; "
        "repeat with --force to lose them");
  }
  // The old primary ends when it hears of the later term.
  send_(wire::StandbyHello{options_.url, options_.term + 1});
  return promote(options_.term + 1);
}

}  // namespace holdfast::replication
