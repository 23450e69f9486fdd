#pragma once
// The work of this worker: for each choice its fence and the ring of tokens that the daemon has not
// acknowledged. Pure: no socket, no thread, no clock. It decides what is sent and what the engines
// are told; the link carries both out. Conversation: schema/protocol.md, "Worker".

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "worker/engine/engine.h"

namespace holdfast::worker {

/// An instruction to an engine.
struct Order {
  enum class Kind : std::uint8_t { kAdd, kCancel, kPause, kResume };
  Kind kind = Kind::kAdd;
  std::string load_id;
  engine::SequenceKey key = 0;
  engine::SequenceSpec spec;  // kAdd
  std::uint64_t mark = 0;     // kAdd: the choice in the step journal
};

/// The table of choices. Not thread-safe: the I/O thread owns it.
class WorkTable {
 public:
  /// `ring_tokens`: unacknowledged tokens of one choice at which its sequence is paused.
  explicit WorkTable(std::size_t ring_tokens) : ring_tokens_(ring_tokens) {}

  // Messages of the daemon. One with a fence older than the choice's is ignored.
  void dispatch(const wire::Dispatch& dispatch, std::int64_t now_us);
  void adopt(const wire::Adopt& adopt);
  void ack(const wire::AckItem& ack);
  void cancel(const wire::CancelWork& cancel);
  void drop(const wire::Drop& drop);
  /// After this, nothing is sent for a choice until the daemon adopts it on the next connection.
  void connection_lost();

  // Reports of the engines. Keys that are not (any more) in the table are ignored.
  void produced(const engine::Produced& produced);
  void add_failed(engine::SequenceKey key, const Error& error);

  /// Ends choices that are past their deadline (finish kExpired).
  void expire(std::int64_t now_us);
  /// Hands back unfinished choices, of one load or (empty) of all.
  void return_unfinished(const std::string& load_id, const std::string& reason);
  void refuse(const wire::Dispatch& dispatch, const std::string& reason);

  // Output: instructions to the engines, and messages to the daemon.
  std::vector<Order> take_orders() { return std::exchange(orders_, {}); }
  /// Choices handed back since the last call; forgotten when the connection is lost (HELLO tells it
  /// too).
  std::vector<wire::Returned> take_returned() { return std::exchange(returned_, {}); }
  /// Everything that was not sent on this connection, about `tokens_max` tokens at most. Empty
  /// events: there is nothing.
  wire::Tokens unsent(std::size_t tokens_max) const;
  void mark_sent(const wire::Tokens& tokens);

  std::vector<wire::ActiveItem> active() const;
  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  /// True while an engine has a choice to go on with, neither finished nor paused.
  bool is_generating() const;

 private:
  using Name = std::pair<std::string, std::int32_t>;  // request, choice
  struct Item {
    std::string load_id;
    engine::SequenceKey key = 0;
    wire::Fence fence;
    bool adopted = false;   // on this connection
    std::int64_t base = 0;  // index of ids[0], the first one not acknowledged
    std::vector<engine::TokenId> ids;
    std::vector<std::string> extra;  // one for each id, or empty
    wire::FinishReason finish = wire::FinishReason::kNone;
    Error error;
    std::int64_t sent_upto = 0;
    bool finish_sent = false;
    bool paused = false;
    std::optional<std::int64_t> cached_tokens;  // Produced::cached_tokens, until it is sent
    std::int64_t deadline_us = -1;
    std::int64_t next() const { return base + static_cast<std::int64_t>(ids.size()); }
    bool finished() const { return finish != wire::FinishReason::kNone; }
  };

  void start(const wire::Dispatch& dispatch, std::int64_t now_us);
  bool restamp(Item& item, const wire::Fence& fence, std::int64_t committed);
  void trim(Item& item, std::int64_t upto);
  void end_in_engine(Item& item);
  static void add_tokens(Item& item, const engine::Produced& produced);
  static wire::TokenEvent event_of(const Name& name, const Item& item, std::int64_t most);
  void forget(std::map<Name, Item>::iterator it);
  void give_back(const Name& name, const Item& item, const std::string& reason);

  std::size_t ring_tokens_;
  engine::SequenceKey last_key_ = 0;
  std::map<Name, Item> items_;
  std::map<engine::SequenceKey, Name> names_;  // of items that an engine works on
  std::vector<Order> orders_;
  std::vector<wire::Returned> returned_;
};

}  // namespace holdfast::worker
