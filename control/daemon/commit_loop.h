#pragma once
// The daemon without its sockets: collects what a group of events asks for, writes it in one
// transaction, and only then releases the messages. The daemon gives it real sockets and clocks,
// the simulator simulated ones. Runs on one thread.

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/core/machine.h"
#include "control/objects/objects.h"
#include "control/store/store.h"
#include "shared/wire/socket.h"

namespace holdfast::daemon {

/// A message that a commit justifies.
struct Delivery {
  core::PeerId to = 0;
  wire::Message message;
  /// The event that has a part of a stream sent again if the peer's socket is full. Other messages
  /// have none.
  std::optional<core::SendFailed> resend = {};
  bool full = false;  // that commit was of durability FULL
};

/// Everything that a commit releases, in the order in which it is to leave.
struct Released {
  std::vector<core::Note> notes;
  std::vector<std::variant<Delivery, core::SendOpResult>> messages;
  std::optional<Error> failure;  // a read of the store, after these: the process must end
};

/// Services that the commit loop needs from the daemon or the simulator.
class CommitLoopHost {
 public:
  virtual ~CommitLoopHost() = default;
  virtual core::Now now() const = 0;
  /// Fills in the bytes of the event's tokens.
  virtual void fill_token_bytes(const std::string& model_sha, wire::Event& event) = 0;
  virtual std::string new_request_id() = 0;
  virtual std::uint64_t new_seed() = 0;
  virtual std::string body_hash(wire::Submit& submit) = 0;
};

/// The machine with its database. Between two commits nothing that it decided is visible outside.
/// One thread.
class CommitLoop {
 public:
  /// `store` and `host` must outlive the loop. `base`: values of the knobs that nobody has set.
  CommitLoop(const core::Config& base, store::Store& store, CommitLoopHost& host)
      : store_(store), host_(host), machine_(base), objects_(store) {}

  /// Raises the epoch, reads the database, boots the machine, commits and releases. Call it before
  /// the first peer is let in; what it releases has no receiver yet but the log. `imports`:
  /// settings of the sources, the last one wins. A full disk is an error at a start.
  Result<Released> boot(std::vector<core::ConfigImport> imports = {});

  // ---- events of a group
  void step(const core::Event& event);
  /// Steps a client's message. Requests that it names and the machine has forgotten are read first.
  void from_client(core::PeerId peer, wire::Message& message);
  void from_worker(core::PeerId peer, wire::Message& message);
  void operate(const core::Event& event);
  /// Steps objects.put or objects.delete.
  void change_object(core::PeerId peer, const wire::Op& op);
  /// Steps db.accept_loss: the loss of log that an opening found is not reported any more.
  void accept_loss(core::PeerId peer, const wire::Op& op);
  /// Steps what the last release caused, timers that are due, the next page of a long queue, and
  /// now and then a sweep over old requests.
  void tick();

  // ---- the end of a group
  enum class Commit : std::uint8_t { kDone, kDiskFull };
  /// Writes the group in one transaction. kDiskFull: the disk is full, nothing was written; call it
  /// again before any other event is stepped. kStorage, kCorrupt: the process must end, nothing may
  /// be released.
  Result<Commit> commit();
  /// Returns what was committed, to be sent in its order, each delivery by pass_on().
  Released release();
  /// Sends a delivery by `send(to, message)`. What this returns kFull for is postponed: a part of a
  /// stream is released again, and nothing of the stream overtakes it; other messages are lost.
  template <class Send>
  void pass_on(const Delivery& delivery, Send send) {
    const bool waits = delivery.resend && full_.count({delivery.to, delivery.resend->tag}) > 0;
    if (waits || send(delivery.to, delivery.message) == wire::SendStatus::kFull) postpone(delivery);
  }

  core::Machine& machine() { return machine_; }
  const core::Machine& machine() const { return machine_; }
  bool stop_reached() const { return stop_reached_; }
  /// Returns true if the last release caused events, or the store has more of the queue.
  bool has_pending_work() const { return queue_unread_ || !again_.empty(); }
  const core::Effects& pending() const { return pending_; }

 private:
  void postpone(const Delivery& delivery);
  void submit(core::PeerId peer, wire::Submit&& submit);
  void check_disk_space(const wire::Submit& submit);
  void recall(const std::string& id, const std::string& tenant, const std::string& key);
  void read_queue();
  void sweep();
  void release_one(core::SendMessage& out, Released& released);
  void release_one(core::SendDispatch& out, Released& released);
  void release_one(core::SendEvent& out, Released& released);
  void release_one(core::SendOpResult& out, Released& released);
  std::optional<wire::Event> read_event(core::SendEvent& out, Released& released);

  store::Store& store_;
  CommitLoopHost& host_;
  core::Machine machine_;
  Objects objects_;
  std::int64_t unchecked_bytes_ = 0;  // of submissions in the group in progress
  core::Effects pending_;             // of the group in progress
  std::set<std::pair<core::PeerId, std::uint64_t>> full_;  // streams whose socket was full
  std::deque<core::Event> again_;                          // events that a release caused
  std::optional<Error> failure_;  // a read that failed: the group is not committed
  bool stop_reached_ = false;
  bool queue_unread_ = false;  // the store has more of the queue as it was at the start
  std::int64_t swept_us_ = 0;
  core::Seq swept_to_ = 0;     // where the next sweep goes on
  std::string prefix_secret_;  // of the database; empty: one root for all groups
};

}  // namespace holdfast::daemon
