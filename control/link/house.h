#pragma once
// The daemon without its sockets: collects what a group of events asks for, writes it in one
// transaction, and only then lets the messages out. The daemon gives it real sockets and clocks,
// the simulator simulated ones. One thread.

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/core/machine.h"
#include "control/link/objects.h"
#include "control/store/store.h"
#include "shared/wire/socket.h"

namespace holdfast::link {

/// What the house needs from whoever runs it.
class HouseHost {
 public:
  virtual ~HouseHost() = default;
  virtual core::Now now() const = 0;
  /// kFull: not taken, the house tries again where that matters.
  virtual wire::SendStatus send(core::PeerId to, wire::Message message) = 0;
  virtual void answer(const core::SendOpResult& result) = 0;
  virtual void note(const core::Note& note) = 0;
  /// Puts the bytes of the tokens into an event.
  virtual void dress(const std::string& model_sha, wire::Event& event) = 0;
  virtual std::string new_request_id() = 0;
  virtual std::uint64_t new_seed() = 0;
  virtual std::string body_hash(wire::Submit& submit) = 0;
};

class House {
 public:
  /// `store` and `host` must live longer.
  /// `base`: what knobs are that nobody has set.
  House(const core::Config& base, store::Store& store, HouseHost& host)
      : store_(store), host_(host), machine_(base), objects_(store) {}

  /// Raises the epoch, reads the database, boots the machine, commits and releases. Before the
  /// first peer is let in. `imports`: what the sources of settings say, the last one wins. A full
  /// disk is an error at a start.
  Result<void> boot(std::vector<core::ConfigImport> imports = {});

  // ---- events of a group
  void step(const core::Event& event);
  /// Requests that the machine has forgotten are read before a message that names them is stepped.
  void from_client(core::PeerId peer, wire::Message& message);
  void from_worker(core::PeerId peer, wire::Message& message);
  void operate(const core::Event& event);
  /// objects.put, objects.delete.
  void change_object(core::PeerId peer, const wire::Op& op);
  /// db.accept_loss: what an opening found lost of the log is nobody's concern any more.
  void accept_loss(core::PeerId peer, const wire::Op& op);
  /// What the last release caused, timers that are due, more of a long queue, and now and then a
  /// look at old requests.
  void tick();

  // ---- the end of a group
  enum class Commit : std::uint8_t { kDone, kNoRoom };
  /// One transaction. kNoRoom: the disk is full, nothing was written; call it again before any
  /// other event is stepped. kStorage, kCorrupt: the process must end, nothing may be released.
  Result<Commit> commit();
  /// Lets out what was committed. Errors are those of reads of the store: the process must end.
  Result<void> release();

  core::Machine& machine() { return machine_; }
  const core::Machine& machine() const { return machine_; }
  bool stop_reached() const { return stop_reached_; }
  /// There are events that the last release caused, or the store has more of the queue.
  bool has_more() const { return queue_unread_ || !again_.empty(); }
  const core::Effects& pending() const { return pending_; }

 private:
  void look_at_room(const wire::Submit& submit);
  void recall(const std::string& id, const std::string& tenant, const std::string& key);
  void read_queue();
  void sweep();
  void release_early(const core::Effects& group);
  void release_one(core::SendMessage& out);
  void release_one(core::SendDispatch& out);
  void release_one(core::SendEvent& out);
  void release_one(core::SendOpResult& out);

  store::Store& store_;
  HouseHost& host_;
  core::Machine machine_;
  Objects objects_;
  std::int64_t unchecked_bytes_ = 0;  // of submissions since the disk was last looked at
  core::Effects pending_;             // of the group in progress
  std::set<std::pair<core::PeerId, std::uint64_t>> full_;  // streams whose socket was full now
  std::deque<core::Event> again_;                          // events that a release caused
  std::optional<Error> failure_;  // a read that failed: the group is not committed
  bool stop_reached_ = false;
  bool queue_unread_ = false;  // the store has more of the queue as it was at the start
  std::int64_t swept_us_ = 0;
  core::Seq swept_to_ = 0;     // where the next sweep goes on
  std::string prefix_secret_;  // of the database; empty: one root for all groups
};

}  // namespace holdfast::link
