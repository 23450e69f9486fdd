#pragma once
// Subscriptions: which client reads which request. A subscription is the next index to send for
// each choice and a window. There is no queue per client: a slow client gets longer token runs
// later, out of what is committed.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/core/config.h"
#include "control/core/effects.h"
#include "control/core/requests.h"

namespace holdfast::core {

/// A stream that a client reads: how far it is and what it may get.
struct Subscription {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  Seq seq = 0;
  std::vector<std::int64_t> next;      // per choice: first index not sent
  std::vector<std::int64_t> credited;  // per choice: the client has taken [0, credited)
  std::int64_t window = 0;
  bool fin_sent = false;
  std::int64_t fin_until_us = 0;      // it stays till then, as the FIN may come back
  std::int64_t stalled_until_us = 0;  // its socket was full
};

/// The streams of all clients, by connection and by request. Not thread-safe.
class StreamHub {
 public:
  using Key = std::pair<PeerId, std::uint64_t>;  // a tag is unique on its connection

  /// Adds a subscription. The caller first takes out one of the same peer and tag with remove().
  Subscription& add(Subscription subscription);
  Subscription* find(PeerId peer, std::uint64_t tag);
  /// Takes a subscription out. Returns the request that it belonged to, 0 if unknown.
  Seq remove(PeerId peer, std::uint64_t tag);
  /// Takes out all subscriptions of a peer. Returns the requests that lost one, with repeats.
  std::vector<Seq> remove_peer(PeerId peer);
  /// Returns the subscriptions of a request.
  std::vector<Key> of_request(Seq seq) const;
  std::size_t size() const { return subscriptions_.size(); }

 private:
  std::map<Key, Subscription> subscriptions_;
  std::map<Seq, std::set<Key>> by_request_;
};

/// Sends what is committed, not yet sent and inside the window. Returns true when everything of a
/// terminal request was sent (the caller then sends FIN).
bool pump(Subscription& subscription, const Request& request, const Config& config, Effects& out);

}  // namespace holdfast::core
