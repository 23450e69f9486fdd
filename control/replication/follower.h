#pragma once
// The decisions of a standby: what of its primary's messages it confirms, when it takes over, and
// whom it follows. The process around it (standby.h) has the sockets and the clock.

#include <cstdint>
#include <functional>
#include <string>

#include "control/replication/copy_receiver.h"
#include "control/replication/record_calls.h"
#include "shared/wire/messages.h"

namespace holdfast::replication {

/// How a standby ended.
struct StandbyEnd {
  bool promoted = false;   // else: a stop was requested
  std::uint64_t term = 0;  // of this machine as the primary
};

/// Settings of a follower; times in microseconds.
struct FollowerOptions {
  std::string state_dir;
  std::string url;                    // of this machine's listener, once it is the primary
  std::string primary;                // where the primary is; empty: as the note says
  std::uint64_t term = 0;             // the highest that it has met
  std::int64_t silence_us = 800'000;  // of the primary, before it takes over
  RecordCalls* record = nullptr;      // nullptr: it never takes over by itself
};

/// The standby of one primary at a time. Not thread-safe.
class Follower {
 public:
  using Send = std::function<void(const wire::Message&)>;
  Follower(FollowerOptions options, Send send, std::int64_t now_us,
           StateFiles& files = machine_files());

  /// The connection to the primary is there, anew.
  void connected(std::int64_t now_us) { hello_due_us_ = now_us; }
  /// Takes a message of the primary. kIo: this machine's own disk fails.
  Result<void> take(const wire::Ship& ship, std::int64_t now_us);
  /// Greets the primary where that is due, takes over when it is silent, and follows the record to
  /// another primary. Called now and then, and when the record has answered. kIo.
  Result<void> tick(std::int64_t now_us);
  /// An operator makes this machine the primary. kConflict with the reason.
  Result<void> promote_by_hand(bool force, std::int64_t now_us);

  /// The primary to be connected to; it changes by tick().
  const std::string& primary() const { return copy_.note().primary; }
  const StandbyEnd& end() const { return end_; }
  std::uint64_t term() const { return options_.term; }
  const StandbyNote& note() const { return copy_.note(); }
  std::uint64_t messages() const { return copy_.number(); }
  std::int64_t silent_us(std::int64_t now_us) const { return now_us - last_word_us_; }
  bool is_silent(std::int64_t now_us) const { return silent_us(now_us) > options_.silence_us; }
  /// Trouble with the record; empty: none.
  const std::string& record_trouble() const { return record_trouble_; }

 private:
  Result<void> write(const wire::Ship& ship, std::int64_t now_us);
  Result<void> promote(std::uint64_t term);
  Result<void> check_record(std::int64_t now_us);
  Result<void> take_answer(const RecordAnswer& answer, std::int64_t now_us);
  void start_call();
  void follow(const Record& record, std::int64_t now_us);

  FollowerOptions options_;
  Send send_;
  CopyReceiver copy_;
  StandbyEnd end_;
  std::uint64_t requested_ = 0;  // the message that asked to take over
  std::int64_t last_word_us_ = 0;
  std::int64_t hello_due_us_ = INT64_MAX;
  std::int64_t hello_us_ = 0;  // the last one
  std::int64_t calls_us_ = -(1LL << 40);
  std::string record_trouble_;
};

}  // namespace holdfast::replication
