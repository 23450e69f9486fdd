#pragma once
// Answers that may not leave yet: promises that only this machine has, while the record still says
// that the standby has everything. What belongs to the same conversation waits with them, in its
// order.

#include <deque>
#include <set>
#include <utility>
#include <variant>

#include "control/daemon/commit_loop.h"

namespace holdfast::daemon {

/// The queue of such answers. Not thread-safe.
class HeldAnswers {
 public:
  using Answer = std::variant<Delivery, core::SendOpResult>;

  /// Copies an answer that must wait: a promise, or what comes after one. Returns false if it may
  /// leave. `promises_wait`: promises may not leave now.
  bool take(const Delivery& answer, bool promises_wait);
  bool take(const core::SendOpResult& answer, bool promises_wait);
  /// Returns all that waited, in its order.
  std::deque<Answer> release();
  void forget(core::PeerId peer);
  bool empty() const { return answers_.empty(); }
  std::size_t size() const { return answers_.size(); }

 private:
  using Conversation = std::pair<core::PeerId, std::uint64_t>;
  bool waits(const Conversation& conversation, bool holds);
  std::deque<Answer> answers_;
  std::set<Conversation> waiting_;
};

}  // namespace holdfast::daemon
