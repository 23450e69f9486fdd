#pragma once
// The history before a turn: the responses that it continues, and the items that it names by their
// ids. Only objects of the turn's owner are searched.

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/gateway/common/context.h"
#include "control/gateway/common/object_store.h"
#include "control/gateway/http/exchange.h"

namespace holdfast::gateway {

/// One response as a later turn sees it.
struct PastTurn {
  std::string id;
  std::string previous;  // id of the response before it, or empty
  std::string items;     // JSON list: its input
  std::string output;    // JSON list; empty: it has not ended
};

/// The last responses of one connection, for turns that continue responses that are not stored. The
/// oldest are forgotten when one connection has too many or all connections together use too much
/// memory. Runs on the connection's strand.
class TurnMemory {
 public:
  using Total = std::atomic<std::size_t>;  // bytes of all connections
  explicit TurnMemory(std::shared_ptr<Total> total) : total_(std::move(total)) {}
  ~TurnMemory();
  TurnMemory(const TurnMemory&) = delete;
  TurnMemory& operator=(const TurnMemory&) = delete;

  void add(PastTurn turn);
  const PastTurn* find(const std::string& id) const;

 private:
  void forget_oldest();
  std::shared_ptr<Total> total_;
  std::deque<PastTurn> turns_;  // oldest first
  std::size_t bytes_ = 0;
};
using TurnMemoryPtr = std::shared_ptr<TurnMemory>;

/// Stores the end of a turn in the database, where it outlives the request's tokens. Only the first
/// call for a response has an effect.
void store_final_response(Context& context, const client::Principal& owner, const std::string& id,
                          const nlohmann::ordered_json& document);

/// A turn's own items without references, and the lists of items before them, in order.
struct Conversation {
  std::vector<std::string> before;  // JSON lists
  std::string items;                // JSON list
};
/// Gathers the history and runs `done` on the exchange's strand, unless the exchange was answered
/// because something is missing or too long. `memory` may be null.
void gather_conversation(Context& context, const ExchangePtr& exchange, const TurnMemoryPtr& memory,
                         const std::string& previous, const std::string& items,
                         std::function<void(Conversation)> done);

/// Returns the id that a reference names; nullopt if the item is no reference.
std::optional<std::string> referenced_id(const nlohmann::ordered_json& item);

/// Returns an input item's id: its own, or the one made of its response's id and `index`.
std::string input_item_id(const nlohmann::ordered_json& item, const std::string& response,
                          std::size_t index);

}  // namespace holdfast::gateway
