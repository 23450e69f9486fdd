#pragma once
// History before a turn: the responses that it goes on from, and the items that it names by
// their ids. Everything is looked for among its owner's alone.

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/gateway/exchange.h"
#include "control/gateway/keeper.h"
#include "control/gateway/router.h"

namespace holdfast::gateway {

/// One response as a later turn sees it.
struct PastTurn {
  std::string id;
  std::string previous;  // id of the one before it, or empty
  std::string items;     // JSON list: its input
  std::string output;    // JSON list; empty: it has not ended
};

/// The last responses of one connection, for turns that go on from what is not stored. The oldest
/// are forgotten where there are too many, or where the memory of all connections together is.
/// On the connection's strand.
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
  std::deque<PastTurn> turns_;  // the oldest first
  std::size_t bytes_ = 0;
};
using TurnMemoryPtr = std::shared_ptr<TurnMemory>;

/// A turn's end, in the database: there when the request's tokens are not any more. Whoever is
/// first does it.
void keep_end(Context& context, const client::Principal& owner, const std::string& id,
              const nlohmann::ordered_json& document);

/// The turn's own items without references, and the lists of items before them, in order.
struct Conversation {
  std::vector<std::string> before;  // JSON lists
  std::string items;                // JSON list
};
/// `done` runs on the exchange's strand, unless the exchange was answered with what is not there.
/// `memory` may be null.
void gather_conversation(Context& context, const ExchangePtr& exchange, const TurnMemoryPtr& memory,
                         const std::string& previous, const std::string& items,
                         std::function<void(Conversation)> done);

/// The id that an item of a reference names; nullopt: it is none.
std::optional<std::string> referenced_id(const nlohmann::ordered_json& item);

/// An input item's id: its own, or what it is given as the `index`th of its response.
std::string input_item_id(const nlohmann::ordered_json& item, const std::string& response,
                          std::size_t index);

}  // namespace holdfast::gateway
