#include "tests/simulation/lib/network.h"

#include <iterator>
#include <vector>

#include "shared/wire/frame.h"

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kRetryUs = 20 * kMs;

}  // namespace

void Network::connect(Endpoint* peer, Role role) {
  bool& trying = trying_[peer];
  if (trying) return;
  trying = true;
  world_.after(world_.random.between(0, kRetryUs), [this, peer, role] { try_connect(peer, role); });
}

void Network::connect_to(Endpoint* peer, Role role, Listener* listener) {
  targets_[peer] = listener;
  connect(peer, role);
}

/// The daemon to be tried now; nullptr: nobody is looked for any more.
Listener* Network::next_listener(Endpoint* peer, Role role) {
  if (role == Role::kStandby) {
    const auto target = targets_.find(peer);
    return target == targets_.end() ? nullptr : target->second;
  }
  if (listeners_.size() == 1) return listeners_.front();
  return listeners_[turns_[peer]++ % listeners_.size()];
}

void Network::try_connect(Endpoint* peer, Role role) {
  Listener* listener = next_listener(peer, role);
  if (listener == nullptr) {
    trying_[peer] = false;
    return;
  }
  if (!listener->listens() || isolated_until_us_[peer] > world_.now_us) {
    world_.after(kRetryUs + world_.random.between(0, kRetryUs),
                 [this, peer, role] { try_connect(peer, role); });
    return;
  }
  trying_[peer] = false;
  if (unseen_until_us_[peer] > world_.now_us) world_.hit(Fault::kLostUnseen);
  const PeerId id = ++last_;
  Connection& connection = connections_[id];
  connection.peer = peer;
  connection.listener = listener;
  connection.role = role;
  peer->on_connected(id);
}

/// The time when a message that is sent now arrives: never before the one sent before it.
std::int64_t Network::arrival(std::int64_t& last_us) {
  last_us = std::max(last_us, world_.now_us + world_.random.between(20, world_.swarm.delay_us));
  return last_us;
}

void Network::send_to_daemon(PeerId id, wire::Message message) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  const std::int64_t at_us = arrival(it->second.last_up_us);
  auto carried = std::make_shared<wire::Message>(std::move(message));
  world_.after(at_us - world_.now_us, [this, id, carried] {
    const auto open = connections_.find(id);
    if (open == connections_.end()) return;
    world_.trace(1, id, carried->index());
    open->second.listener->on_peer_message(id, open->second.role, std::move(*carried));
  });
}

bool Network::send_to_peer(PeerId id, wire::Message message) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return false;
  const std::int64_t at_us = arrival(it->second.last_down_us);
  auto carried = std::make_shared<wire::Message>(std::move(message));
  world_.after(at_us - world_.now_us, [this, id, carried] {
    const auto open = connections_.find(id);
    if (open == connections_.end()) return;
    world_.trace(2, id, carried->index());
    open->second.peer->on_message(id, *carried);
  });
  return true;
}

void Network::cut(PeerId id, std::int64_t daemon_sees_us, std::int64_t peer_sees_us) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  Endpoint* peer = it->second.peer;
  Listener* listener = it->second.listener;
  connections_.erase(it);
  world_.say([&] { return "connection " + std::to_string(id) + " is cut"; });
  if (daemon_sees_us >= 0) {
    unseen_until_us_[peer] = world_.now_us + daemon_sees_us;
    world_.after(daemon_sees_us, [listener, id] {
      if (listener->listens()) listener->on_peer_gone(id);
    });
  }
  if (peer_sees_us >= 0) world_.after(peer_sees_us, [peer, id] { peer->on_lost(id); });
}

void Network::daemon_died(const Listener* listener) {
  unseen_until_us_.clear();
  std::vector<PeerId> all;
  for (const auto& [id, connection] : connections_) {
    if (connection.listener == listener) all.push_back(id);
  }
  for (const PeerId id : all) cut(id, -1, world_.random.between(0, 100 * kMs));
}

const Listener* Network::listener_of(PeerId id) const {
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : it->second.listener;
}

void Network::hold(PeerId id, std::int64_t up_us, std::int64_t down_us) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  Connection& connection = it->second;
  connection.last_up_us = std::max(connection.last_up_us, world_.now_us + up_us);
  connection.last_down_us = std::max(connection.last_down_us, world_.now_us + down_us);
}

PeerId Network::any(std::uint64_t random_bits) const {
  if (connections_.empty()) return 0;
  return std::next(connections_.begin(),
                   static_cast<std::ptrdiff_t>(random_bits % connections_.size()))
      ->first;
}

PeerId Network::of(const Endpoint* peer) const {
  for (const auto& [id, connection] : connections_) {
    if (connection.peer == peer) return id;
  }
  return 0;
}

}  // namespace holdfast::simulation
