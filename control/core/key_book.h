#pragma once
// Limits of API keys: how many requests of a key have not ended, and how many came in the last
// minute. A request counts before anything is done for it, so that one which is refused after its
// prompts were tokenized has been paid for. What the limits are comes with each request; what they
// are compared with is here, one book for all gateways, and is read from the requests' rows again
// at a start.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/core/events.h"

namespace holdfast::core {

class KeyBook {
 public:
  static constexpr std::int64_t kWindowMs = 60'000;

  /// At a start: what the requests in the database amount to.
  void restore(const std::vector<KeyUse>& uses, Now now);
  /// kRateLimited if one more is more than the key's limits allow.
  std::optional<wire::Refusal> refuse(const wire::Submit& submit, std::int64_t now_us);
  /// nullopt without a limit on requests a minute.
  std::optional<wire::KeyStanding> standing(const wire::Submit& submit, std::int64_t now_us);
  /// Work on a request begins, before it can be accepted. `again`: it was charged before.
  void preparing(const std::string& key, std::int64_t now_us, bool again = false);
  /// That work has ended.
  void prepared(const std::string& key);
  /// `charged`: it was when its preparation began.
  void accepted(const std::string& key, std::int64_t now_us, bool charged = false);
  /// A request of it became terminal.
  void ended(const std::string& key);
  std::size_t size() const { return uses_.size(); }

 private:
  /// Requests that were accepted at nearly the same time.
  struct Slot {
    std::int64_t number = 0;  // time / kSlotUs
    std::int64_t requests = 0;
  };
  struct Use {
    std::int64_t live = 0;
    std::int64_t recent = 0;     // the sum of the slots
    std::deque<Slot> slots;      // of the last minute, in their order
    std::int64_t preparing = 0;  // requests that may yet become live
  };
  using Uses = std::unordered_map<std::string, Use>;
  static void forget_old(Use& use, std::int64_t now_us);
  static void add(Use& use, std::int64_t at_us);
  const Use* find(const std::string& key, std::int64_t now_us);
  Uses uses_;
};

}  // namespace holdfast::core
