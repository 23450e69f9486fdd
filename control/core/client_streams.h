#pragma once
// Clients: attach, credit, cancel, status.

#include <cstdint>
#include <string>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/requests.h"
#include "control/core/streams.h"

namespace holdfast::core {

class Aliases;
class IngressJobs;
class Lifecycle;
class Registry;

/// The streams of clients, and what else clients ask for about their requests.
class ClientStreams {
 public:
  ClientStreams(Core& core, Lifecycle& lifecycle, Registry& registry, Aliases& aliases,
                IngressJobs& jobs)
      : core_(core), lifecycle_(lifecycle), registry_(registry), aliases_(aliases), jobs_(jobs) {}

  /// Ends the subscriptions of a client that is gone.
  void peer_gone(PeerId peer);
  /// Goes on with a subscription whose socket was full.
  void stall_over(PeerId peer, std::uint64_t tag);
  /// Removes a subscription whose FIN was sent and has not come back.
  void fin_over(PeerId peer, std::uint64_t tag);
  void on(const FromClient& event);
  void on(const SendFailed& event);
  /// Sends to all subscribers of the request what is committed and inside their windows.
  void pump_request(Request& request);

  std::int64_t size() const { return static_cast<std::int64_t>(streams_.size()); }

 private:
  Request* find_request(const std::string& id, const std::string& tenant, const std::string& key);
  void client_message(PeerId peer, const wire::Attach& m);
  void unsubscribe(Seq seq, bool for_good = false);
  void client_message(PeerId peer, const wire::Credit& m);
  void client_message(PeerId peer, const wire::Detach& m);
  void client_message(PeerId peer, const wire::Cancel& m);
  void client_message(PeerId peer, const wire::StatusQuery& m);
  void client_message(PeerId peer, const wire::ModelsQuery& m);
  void pump_one(Subscription& subscription, Request& request);

  Core& core_;
  Lifecycle& lifecycle_;
  Registry& registry_;
  Aliases& aliases_;
  IngressJobs& jobs_;

  StreamHub streams_;
};

}  // namespace holdfast::core
