#include "control/replication/primary.h"

#include <algorithm>
#include <utility>

#include "shared/base/log.h"

namespace holdfast::replication {
namespace {

constexpr std::size_t kMessageBytes = 1 << 20;
constexpr std::size_t kCopyBytes = 256 << 10;
constexpr std::uint64_t kCopyWindow = 32;       // messages of the copy under way
constexpr int kCopyAtATime = 4;                 // messages of the copy between two groups
constexpr std::uint64_t kUnconfirmedMax = 512;  // a standby that is further back is let go
constexpr std::int64_t kSignOfLifeUs = 100'000;
constexpr std::int64_t kCompleteUs = 60'000'000;  // for the standby to sync the whole copy
constexpr std::int64_t kRecordAgainUs = 250'000;

}  // namespace

Primary::Primary(PrimaryOptions options, ShippingDisk& disk, Send send)
    : options_(std::move(options)),
      disk_(disk),
      send_(std::move(send)),
      member_(options_.in_step),
      recorded_(options_.in_step) {
  disk_.set_sink(this);
}

Primary::~Primary() {
  disk_.set_sink(nullptr);
}

Result<void> Primary::hello(core::PeerId peer, const wire::StandbyHello& hello,
                            std::int64_t now_us) {
  if (hello.term > options_.term) {
    return Error{Errc::kConflict, "the standby " + hello.url + " has met term " +
                                      std::to_string(hello.term) + ", this is term " +
                                      std::to_string(options_.term)};
  }
  if (hello.url.empty() || hello.url == options_.url) return {};
  release_standby();
  peer_ = peer;
  standby_url_ = hello.url;
  complete_ = hand_over_ = 0;
  copy_file_ = 0;
  copy_at_ = 0;
  acknowledged_ = number_;
  log::info("a standby gets the database", {{"standby", standby_url_}});
  ship(wire::ShipKind::kBegin, now_us);
  next_us_ = now_us;
  return {};
}

void Primary::shipped(core::PeerId peer, const wire::Shipped& shipped, std::int64_t now_us) {
  if (!is_standby(peer) || shipped.term != options_.term || shipped.number > number_) return;
  acknowledged_ = std::max(acknowledged_, shipped.number);
  waiting_us_ = now_us;
  next_us_ = now_us;
  if (copied_ || complete_ == 0 || acknowledged_ < complete_) return;
  copied_ = true;
  log::info("the standby has the database", {{"standby", standby_url_}});
  if (options_.record == nullptr) member_ = standby_url_;
  begin_to_join();
}

/// Waits for the standby from here on. Groups before were answered without it: the record may call
/// it in step only once it has them too.
void Primary::begin_to_join() {
  if (!copied_ || !member_.empty()) return;
  joins_ = true;
  joins_from_ = number_;
}

void Primary::release_standby() {
  peer_ = 0;
  copied_ = joins_ = false;
  changes_.clear();
  if (options_.record == nullptr) member_.clear();
  next_us_ = 0;
}

void Primary::peer_gone(core::PeerId peer) {
  if (is_standby(peer)) give_up("its connection is closed");
}

void Primary::give_up(const std::string& why) {
  if (peer_ == 0) return;
  log::warn("the standby is lost", {{"standby", standby_url_}, {"why", why}});
  release_standby();
}

bool Primary::may_answer() const {
  if (must_wait() && peer_ != 0) return true;
  // Without a record no standby takes over by itself.
  const bool alone = options_.record == nullptr || member_.empty();
  return alone && !options_.strict;
}

void Primary::ship(wire::ShipKind kind, std::int64_t now_us) {
  wire::Ship message;
  message.term = options_.term;
  message.number = ++number_;
  message.kind = kind;
  message.in_step = copied_ && member_ == standby_url_;
  message.sync = options_.synced && message.in_step;
  message.changes = std::exchange(changes_, {});
  shipped_bytes_ += static_cast<std::int64_t>(message.changes.size());
  if (acknowledged_ + 1 == number_) waiting_us_ = now_us;
  sent_us_ = now_us;
  const bool far = number_ - acknowledged_ > kUnconfirmedMax;
  if (send_(peer_, message) == wire::SendStatus::kGone) {
    give_up("its connection is closed");
  } else if (far) {
    give_up("it is " + std::to_string(number_ - acknowledged_) + " messages back");
  }
}

void Primary::flush(std::int64_t now_us) {
  if (peer_ != 0 && !changes_.empty()) ship(wire::ShipKind::kChanges, now_us);
}

bool Primary::ship_commit(core::Durability durability, std::int64_t now_us) {
  flush(now_us);
  return durability == core::Durability::kFull && must_wait() && !confirmed();
}

void Primary::written(DatabaseFile file, std::int64_t at, std::string_view bytes) {
  if (peer_ == 0) return;
  append_write(changes_, file, at, bytes);
  if (changes_.size() >= kMessageBytes) flush(options_.clock->monotonic_us());
}

void Primary::truncated(DatabaseFile file, std::int64_t size) {
  if (peer_ != 0) append_truncate(changes_, file, size);
}

void Primary::sync_begins() {
  flush(options_.clock->monotonic_us());
}

/// Sends the next part of the copy, while few messages are unconfirmed.
Result<void> Primary::copy_on(std::int64_t now_us) {
  for (int i = 0; i < kCopyAtATime; ++i) {
    if (peer_ == 0 || complete_ != 0 || number_ - acknowledged_ >= kCopyWindow) return {};
    flush(now_us);  // a truncation in there must not come after what is read now
    const auto file = static_cast<DatabaseFile>(copy_file_);
    HOLDFAST_TRY(const std::string bytes, disk_.read(file, copy_at_, kCopyBytes));
    if (!bytes.empty()) {
      append_write(changes_, file, copy_at_, bytes);
      copy_at_ += static_cast<std::int64_t>(bytes.size());
      flush(now_us);
      continue;
    }
    copy_at_ = 0;
    if (++copy_file_ < 2) continue;
    ship(wire::ShipKind::kComplete, now_us);
    complete_ = number_;
  }
  return {};
}

void Primary::start_record_call(std::int64_t now_us) {
  if (options_.record == nullptr || options_.record->under_way() || now_us < record_again_us_) {
    return;
  }
  const bool mine = member_.empty() || member_ == standby_url_;
  const bool has_all = copied_ && acknowledged_ >= joins_from_;
  const bool add = has_all && mine && recorded_ != standby_url_;
  const bool remove = !member_.empty() && !(copied_ && mine);
  if (!add && !remove) return;
  // From here on the record may have it, or may not.
  if (add) member_ = standby_url_;
  recorded_.clear();
  options_.record->start([url = options_.url, term = options_.term,
                          standby = add ? member_ : std::string()](RecordStore& store) {
    return set_in_step(store, url, term, standby);
  });
}

Result<void> Primary::check_record(std::int64_t now_us) {
  if (options_.record == nullptr) return {};
  if (const auto answer = options_.record->take()) {
    record_trouble_ = answer->why;
    switch (answer->outcome) {
      case RecordAnswer::Outcome::kDone:
        member_ = recorded_ = answer->record.in_step;
        joins_ = joins_ && member_.empty();
        if (!joins_) begin_to_join();
        log::info("the record has changed", {{"in_step", member_}});
        break;
      case RecordAnswer::Outcome::kOther:
        return Error{Errc::kConflict, "the record has " + answer->record.primary +
                                          " as the primary of term " +
                                          std::to_string(answer->record.term)};
      case RecordAnswer::Outcome::kUnreachable:
        record_again_us_ = now_us + kRecordAgainUs;
        break;
    }
  }
  start_record_call(now_us);
  return {};
}

Result<void> Primary::tick(std::int64_t now_us) {
  if (peer_ != 0) {
    HOLDFAST_CHECKED(copy_on(now_us));
    flush(now_us);
    const std::int64_t patience = copied_ ? options_.silence_us : kCompleteUs;
    if (acknowledged_ < number_ && now_us - waiting_us_ > patience) {
      give_up("it has confirmed nothing for " + std::to_string(patience / 1000) + " ms");
    } else if (now_us - sent_us_ >= kSignOfLifeUs) {
      ship(wire::ShipKind::kChanges, now_us);
    }
  }
  HOLDFAST_CHECKED(check_record(now_us));
  const bool pending = options_.record != nullptr && recorded_ != (copied_ ? standby_url_ : "");
  next_us_ = now_us + (peer_ != 0 || pending ? kSignOfLifeUs : 1'000'000);
  const bool copies = peer_ != 0 && complete_ == 0 && number_ - acknowledged_ < kCopyWindow;
  if (copies) next_us_ = now_us;
  return {};
}

void Primary::set_rules(bool strict, bool synced, std::int64_t silence_us) {
  options_.strict = strict;
  options_.synced = synced;
  options_.silence_us = silence_us;
}

bool Primary::hand_over(std::int64_t now_us) {
  if (!must_wait() || peer_ == 0) return false;
  flush(now_us);
  ship(wire::ShipKind::kTakeOver, now_us);
  hand_over_ = number_;
  return peer_ != 0;
}

Primary::Status Primary::status() const {
  Status status;
  status.term = options_.term;
  status.standby = peer_ != 0 ? standby_url_ : member_;
  status.record = record_trouble_;
  status.shipped_bytes = shipped_bytes_;
  status.unconfirmed = static_cast<std::int64_t>(number_ - acknowledged_);
  if (must_wait() && peer_ != 0) {
    status.state = "in_step";
  } else if (!may_answer()) {
    status.state = "missing";
  } else {
    status.state = peer_ != 0 ? "copying" : "alone";
  }
  return status;
}

}  // namespace holdfast::replication
