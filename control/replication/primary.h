#pragma once
// The primary's end of replication: it ships the database to one standby, first all of it, then
// each change in its order, and knows what the standby has. Where answers may leave only once the
// standby has what they tell, the daemon waits for confirmed().
//
// The copy of the beginning is taken from the files as they are, between commits, while changes go
// on: the standby applies both in the order in which they were sent, so at the end its files are
// ours.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "control/core/types.h"
#include "control/replication/record_calls.h"
#include "control/replication/shipping_disk.h"
#include "shared/base/clock.h"
#include "shared/wire/messages.h"
#include "shared/wire/socket.h"

namespace holdfast::replication {

/// Settings of the primary; times in microseconds.
struct PrimaryOptions {
  std::string url;  // of this machine's listener, as the record has it
  std::uint64_t term = 0;
  bool strict = false;                // answers never leave without a standby that has them
  bool synced = false;                // the standby's disk has to have them too
  std::int64_t silence_us = 500'000;  // a standby that confirms nothing for so long is lost
  const Clock* clock = &system_clock();
  /// The record; nullptr: there is none. `in_step` is what it said at the start.
  RecordCalls* record = nullptr;
  std::string in_step;
};

/// Ships the database. Not thread-safe: the store's thread.
class Primary final : public ChangeSink {
 public:
  using Send = std::function<wire::SendStatus(core::PeerId, const wire::Message&)>;
  Primary(PrimaryOptions options, ShippingDisk& disk, Send send);
  ~Primary();

  // ---- messages
  /// A standby asks for the database; one that is connected already is let go. kConflict: it has
  /// met a later term, so this process is not the primary any more and must end.
  Result<void> hello(core::PeerId peer, const wire::StandbyHello& hello, std::int64_t now_us);
  void shipped(core::PeerId peer, const wire::Shipped& shipped, std::int64_t now_us);
  void peer_gone(core::PeerId peer);
  bool is_standby(core::PeerId peer) const { return peer_ != 0 && peer_ == peer; }

  /// Sends what changed since the last call.
  void flush(std::int64_t now_us);
  /// Goes on with copy, signs of life and record. kConflict: another machine is the primary; this
  /// process must end, and no answer may leave. kIo: the database cannot be read.
  Result<void> tick(std::int64_t now_us);
  /// The time of the next tick.
  std::int64_t next_us() const { return next_us_; }

  // ---- after a commit whose answers are promises
  /// Sends the group that was committed. Returns true if it holds promises that the standby has to
  /// confirm before answers leave. Tokens alone are not waited for: what is missing would be
  /// computed again, the same.
  bool ship_commit(core::Durability durability, std::int64_t now_us);
  /// True if the standby has to confirm before answers leave.
  bool must_wait() const { return copied_ && (joins_ || member_ == standby_url_); }
  bool confirmed() const { return peer_ == 0 || acknowledged_ >= number_; }
  /// The standby is lost: it confirmed nothing in time.
  void give_up(const std::string& why);
  /// True if answers may leave: the standby has what they tell, or the record has no standby.
  bool may_answer() const;

  /// Asks the standby to take over. False if it is not in step.
  bool hand_over(std::int64_t now_us);
  bool is_followed() const { return hand_over_ != 0 && acknowledged_ >= hand_over_; }

  /// Sets what the configuration says.
  void set_rules(bool strict, bool synced, std::int64_t silence_us);
  const std::string& url() const { return options_.url; }

  /// Facts about the pair.
  struct Status {
    std::uint64_t term = 0;
    std::string state;    // "alone", "copying", "in_step", "missing"
    std::string standby;  // URL
    std::string record;   // trouble with it; empty: none
    std::int64_t shipped_bytes = 0;
    std::int64_t unconfirmed = 0;  // messages
  };
  Status status() const;

  // ---- ChangeSink
  void written(DatabaseFile file, std::int64_t at, std::string_view bytes) override;
  void truncated(DatabaseFile file, std::int64_t size) override;
  void sync_begins() override;

 private:
  void ship(wire::ShipKind kind, std::int64_t now_us);
  void release_standby();
  void begin_to_join();
  Result<void> copy_on(std::int64_t now_us);
  Result<void> check_record(std::int64_t now_us);
  void start_record_call(std::int64_t now_us);

  PrimaryOptions options_;
  ShippingDisk& disk_;
  Send send_;
  core::PeerId peer_ = 0;  // the standby; 0: none is connected
  std::string standby_url_;
  std::string member_;    // the standby that the record has, or may have; empty: surely none
  std::string recorded_;  // the standby that it surely has
  std::string changes_;
  std::uint64_t number_ = 0;        // of the last message
  std::uint64_t acknowledged_ = 0;  // by the standby
  std::uint64_t complete_ = 0;      // the message that ended the copy; 0: it is under way
  std::uint64_t hand_over_ = 0;
  bool copied_ = false;  // the standby has everything
  // Answers wait for it already, and the record is to have it once it has all that was sent before.
  bool joins_ = false;
  std::uint64_t joins_from_ = 0;  // the last message that was not waited for
  int copy_file_ = 0;             // what is copied next
  std::int64_t copy_at_ = 0;
  std::int64_t sent_us_ = 0;     // the last message
  std::int64_t waiting_us_ = 0;  // since when something is unconfirmed
  std::int64_t next_us_ = 0;
  std::int64_t record_again_us_ = 0;
  std::string record_trouble_;
  std::int64_t shipped_bytes_ = 0;
};

}  // namespace holdfast::replication
