#pragma once
// Connections of peers to a daemon. As ZeroMQ: what arrives over one connection arrives once and
// in order; a lost connection takes what is inside with it; between connections nothing is ordered,
// and each side learns of a loss in its own time.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/core/types.h"
#include "shared/wire/messages.h"
#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

using core::PeerId;
enum class Role : std::uint8_t { kWorker, kIngress, kClient, kStandby, kNode };

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
  /// A daemon that peers may find; there is one, or one on each machine of a pair.
  void add_listener(Listener* listener) { listeners_.push_back(listener); }

  /// Tries until the connection is there; then on_connected(). One try at a time for each endpoint.
  /// Where there are several daemons they are tried in turn.
  void connect(Endpoint* peer, Role role);
  /// Tries the daemon of one machine alone; an earlier try is given up.
  void connect_to(Endpoint* peer, Role role, Listener* listener);
  void give_up(Endpoint* peer) { targets_.erase(peer); }
  void send_to_daemon(PeerId connection, wire::Message message);
  /// Sends; false: no such connection any more.
  bool send_to_peer(PeerId connection, wire::Message message);
  /// Cuts a connection. `daemon_sees_us`, `peer_sees_us`: when each side learns of it; -1 = never.
  void cut(PeerId connection, std::int64_t daemon_sees_us, std::int64_t peer_sees_us);
  void daemon_died(const Listener* listener);
  /// Holds everything on a connection back for a while.
  void clog(PeerId connection, std::int64_t us) { hold(connection, us, us); }
  /// Holds back what goes to the daemon, and what comes from it.
  void hold(PeerId connection, std::int64_t up_us, std::int64_t down_us);
  /// The daemon at the other end; nullptr: no such connection.
  const Listener* listener_of(PeerId connection) const;
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
    Listener* listener = nullptr;
    Role role = Role::kClient;
    std::int64_t last_up_us = 0;  // arrival of the newest message to the daemon
    std::int64_t last_down_us = 0;
  };
  void try_connect(Endpoint* peer, Role role);
  Listener* next_listener(Endpoint* peer, Role role);
  std::int64_t arrival(std::int64_t& last_us);

  World& world_;
  std::vector<Listener*> listeners_;
  std::map<Endpoint*, std::size_t> turns_;  // tries so far, where there are several daemons
  std::map<Endpoint*, Listener*> targets_;  // of connect_to()
  std::map<PeerId, Connection> connections_;
  std::map<Endpoint*, std::int64_t> isolated_until_us_;
  std::map<Endpoint*, bool> trying_;
  std::map<Endpoint*, std::int64_t> unseen_until_us_;  // the daemon knows nothing of a loss yet
  PeerId last_ = 0;
};

}  // namespace holdfast::simulation
