#pragma once
// Limits of API keys: how many requests of a key have not ended, and how many came in the last
// minute. A request counts before anything is done for it, so that one which is refused after its
// prompts were tokenized has been paid for. The limits come with each request; the counts are here,
// one limiter for all gateways, read from the requests' rows again at a start. Requests without a
// key are neither counted nor refused.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/core/events.h"

namespace holdfast::core {

/// Counts the requests of each API key in a sliding minute. Not thread-safe.
class ApiKeyLimiter {
 public:
  static constexpr std::int64_t kWindowMs = 60'000;

  /// Counts the requests that the database holds, at a start.
  void restore(const std::vector<KeyUse>& uses, Now now);
  /// Returns kRateLimited if one more request is more than the key's limits allow.
  std::optional<wire::Refusal> refuse(const wire::Submit& submit, std::int64_t now_us);
  /// Requests that the key has left in this minute; nullopt without a limit on requests a minute.
  std::optional<wire::KeyStanding> standing(const wire::Submit& submit, std::int64_t now_us);
  /// Counts work on a request that begins before it can be accepted. `again`: it was charged
  /// before.
  void preparing(const std::string& key, std::int64_t now_us, bool again = false);
  /// Counts the end of that work.
  void prepared(const std::string& key);
  /// Counts an accepted request. `charged`: it was charged when its preparation began.
  void accepted(const std::string& key, std::int64_t now_us, bool charged = false);
  /// Counts a request that has become terminal.
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
