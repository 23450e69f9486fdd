#pragma once
// Connections of peers to the daemon. As ZeroMQ: what arrives over one connection arrives once and
// in order; a lost connection takes what is inside with it; between connections nothing is ordered,
// and each side learns of a loss in its own time.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "control/core/types.h"
#include "shared/wire/messages.h"
#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

using core::PeerId;
enum class Role : std::uint8_t { kWorker, kIngress, kClient };

/// A peer's side.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual void on_connected(PeerId connection) = 0;
  virtual void on_lost(PeerId connection) = 0;
  virtual void on_message(PeerId connection, wire::Message& message) = 0;
};

/// The daemon's side.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual bool listens() const = 0;
  virtual void on_peer_message(PeerId peer, Role role, wire::Message message) = 0;
  virtual void on_peer_gone(PeerId peer) = 0;
};

class Network {
 public:
  explicit Network(World& world) : world_(world) {}
  void set_listener(Listener* listener) { listener_ = listener; }

  /// Tries until the connection is there; then on_connected(). One try at a time for each endpoint.
  void connect(Endpoint* peer, Role role);
  void send_to_daemon(PeerId connection, wire::Message message);
  /// Sends; false: no such connection any more.
  bool send_to_peer(PeerId connection, wire::Message message);
  /// Cuts a connection. `daemon_sees_us`, `peer_sees_us`: when each side learns of it; -1 = never.
  void cut(PeerId connection, std::int64_t daemon_sees_us, std::int64_t peer_sees_us);
  void daemon_died();
  /// Holds everything on a connection back for a while.
  void clog(PeerId connection, std::int64_t us);
  /// Lets no connection of this endpoint come up before then.
  void isolate(Endpoint* peer, std::int64_t until_us) { isolated_until_us_[peer] = until_us; }
  void end_isolation() { isolated_until_us_.clear(); }
  bool is_open(PeerId connection) const { return connections_.count(connection) > 0; }
  PeerId newest() const { return last_; }
  /// A connection, chosen by `random_bits`; 0 if there is none.
  PeerId any(std::uint64_t random_bits) const;
  PeerId of(const Endpoint* peer) const;

 private:
  struct Connection {
    Endpoint* peer = nullptr;
    Role role = Role::kClient;
    std::int64_t last_up_us = 0;  // arrival of the newest message to the daemon
    std::int64_t last_down_us = 0;
  };
  void try_connect(Endpoint* peer, Role role);
  std::int64_t arrival(std::int64_t& last_us);

  World& world_;
  Listener* listener_ = nullptr;
  std::map<PeerId, Connection> connections_;
  std::map<Endpoint*, std::int64_t> isolated_until_us_;
  std::map<Endpoint*, bool> trying_;
  std::map<Endpoint*, std::int64_t> unseen_until_us_;  // the daemon knows nothing of a loss yet
  PeerId last_ = 0;
};

}  // namespace holdfast::simulation
