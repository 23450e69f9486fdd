// The listener for other machines: one socket of the network, whose peers prove by a key who they
// are.
#include <algorithm>

#include "control/daemon/daemon.h"
#include "control/endpoints/peer_rights.h"
#include "shared/base/listen_note.h"
#include "shared/base/log.h"
#include "shared/wire/curve.h"
#include "shared/wire/frame.h"

namespace holdfast::daemon {
namespace {

// Machines are not told apart from cut cables by a closed socket, as processes of this host are.
constexpr int kRemoteHeartbeatMs = 500;
constexpr int kRemoteTimeoutMs = 2'000;
constexpr std::int64_t kKeysCheckUs = 500'000;  // of keys that are over
constexpr std::int64_t kNodesLookUs = 5'000;
constexpr std::int64_t kKeysMax = 100'000;
constexpr std::int64_t kRangeBytesMax = 512 << 10;  // of a model's file, in one answer

std::string name_of_question(const wire::Message& message) {
  const auto* op = std::get_if<wire::Op>(&message);
  return op != nullptr ? op->verb : std::string(wire::message_name(message));
}

}  // namespace

/// Opens the listener. Where any free port will do it takes that of the process before, as nodes
/// and clients have that one; if it is taken by now, another.
Result<RouterEndpoint> Daemon::open_at_last_port(RouterEndpoint::Options remote) const {
  const std::string& address = remote.endpoint;
  const std::string last = read_listen_note(options_.state_dir + "/run");
  const std::size_t host = address.rfind(':') + 1;
  if (address.substr(host) == "0" && last.starts_with(address.substr(0, host))) {
    RouterEndpoint::Options again = remote;
    again.endpoint = last;
    auto open = RouterEndpoint::open(context_, std::move(again));
    if (open) return open;
  }
  return RouterEndpoint::open(context_, std::move(remote));
}

/// Opens the listener for other machines: `local` has the bounds of a worker's messages.
Result<void> Daemon::open_remote(const wire::SocketOptions& local, std::size_t outbox_max) {
  HOLDFAST_CHECKED(read_peer_keys());
  HOLDFAST_TRY(const std::string secret, store_->secret("curve"));
  HOLDFAST_TRY(const wire::CurvePair pair, wire::curve_pair_of(secret));
  HOLDFAST_TRY(zap_, wire::ZapHandler::open(context_));
  RouterEndpoint::Options remote;
  remote.role = Role::kElsewhere;
  remote.endpoint = options_.listen;
  remote.socket = local;
  remote.socket.curve_server = true;
  remote.socket.secret_key = pair.secret_key;
  remote.socket.heartbeat_interval_ms = kRemoteHeartbeatMs;
  remote.socket.heartbeat_timeout_ms = kRemoteTimeoutMs;
  remote.outbox_max = outbox_max;
  remote.refuse_user = [this](const std::string& user) {
    return peer_keys_.reason_to_refuse(user, clock_.wall_ms());
  };
  remote.bytes_max_of_user = [this](const std::string& user) {
    const client::PeerKey* key = peer_keys_.find(user, clock_.wall_ms());
    const core::Config& config = commit_loop_->machine().config();
    const bool node = key != nullptr && key->role == client::PeerRole::kNode;
    return static_cast<std::size_t>(node ? config.link_worker_message_bytes
                                         : config.link_client_message_bytes);
  };
  HOLDFAST_TRY(RouterEndpoint open, open_at_last_port(std::move(remote)));
  log::info("listening for other machines", {{"endpoint", open.bound_endpoint()},
                                             {"keys", peer_keys_.size()},
                                             {"server_key", pair.public_key}});
  routers_.push_back(std::move(open));
  open_pair();
  open_node_listener();
  open_model_files();
  return write_listen_note(options_.state_dir + "/run", routers_.back().bound_endpoint());
}

/// Opens the socket of the nodes' datagrams, at the same address. Without it all else works.
void Daemon::open_node_listener() {
  auto listener = NodeListener::open(routers_.back().bound_endpoint(), wake_, clock_);
  if (listener) {
    node_listener_ = std::move(listener).value();
  } else {
    log::warn("no datagrams of nodes: their liveness is judged by TCP",
              {{"why", listener.error().what}});
  }
}

/// Steps what datagrams tell of nodes. A session ends with the connection of its node. Groups of
/// tokens come more often than datagrams do: what is not urgent is looked at every few of them.
void Daemon::look_at_nodes(std::int64_t now_us) {
  if (!node_listener_) return;
  if (now_us < nodes_looked_us_ + kNodesLookUs && !node_listener_->is_urgent()) return;
  nodes_looked_us_ = now_us;
  const auto& nodes = commit_loop_->machine().nodes().all();
  for (const std::string& name : node_listener_->nodes()) {
    const auto node = nodes.find(name);
    if (node != nodes.end() && node->second.peer != 0) continue;
    node_listener_->close(name);
    worker_watch_.forget_told(name);
  }
  NodeWatch::Told told = node_listener_->take();
  for (const NodeWorkers& workers : told.workers) {
    worker_watch_.tell(workers.node, workers.workers, now_us);
  }
  for (core::NodeHealth& health : told.health) commit_loop_->step(std::move(health));
}

/// Lets nodes read the registered models. An answer takes no more than a client's message, so that
/// the next token waits behind little.
void Daemon::open_model_files() {
  ModelFilesOptions files;
  files.cache_dir = options_.state_dir + "/cache/chunks";
  files.range_bytes_max = std::min(kRangeBytesMax, client_message_bytes_ / 2);
  files.wake = [this] { wake_.notify(); };
  files.send = [this](core::PeerId to, const wire::Message& message) { (void)send(to, message); };
  model_files_ = std::make_unique<ModelFiles>(std::move(files));
}

void Daemon::refuse_elsewhere(core::PeerId peer, const wire::Message& message,
                              const std::string& key, const std::string& why) {
  if (const auto refusal = refusal_of(message, why)) (void)send(peer, *refusal);
  const auto line = refusal_lines_.count(key, clock_.monotonic_us());
  if (line.count == 0) return;
  log::warn("message refused", {{"key", line.subject}, {"count", line.count}, {"why", why}});
}

Result<void> Daemon::read_peer_keys() {
  store::Store::ObjectQuery query;
  query.kind = client::kPeerKeyKind;
  query.newest_first = false;
  query.limit = kKeysMax;
  HOLDFAST_TRY(const auto rows, store_->list_objects(query));
  peer_keys_.load(rows);
  return {};
}

/// Answers who of the connections that are being made may come in.
void Daemon::answer_authentication() {
  if (!zap_) return;
  zap_->answer([this](const std::string& key) -> std::optional<std::string> {
    if (peer_keys_.find(key, clock_.wall_ms()) == nullptr) return std::nullopt;
    return key;
  });
}

Result<void> Daemon::check_peer_keys(std::int64_t now_us) {
  if (!zap_) return {};
  const bool changed = std::exchange(peer_keys_changed_, false);
  if (!changed && now_us - peer_keys_checked_us_ < kKeysCheckUs) return {};
  peer_keys_checked_us_ = now_us;
  if (changed) HOLDFAST_CHECKED(read_peer_keys());
  routers_.back().drop_refused_users();
  return {};
}

/// Steps a report of a node's supervisor; the end of one of its workers is answered at once.
void Daemon::handle_node(core::PeerId peer, const wire::Op& op, const std::string& node) {
  if (ModelFiles::knows(op.verb)) {
    const std::int64_t now_us = clock_.monotonic_us();
    return model_files_->ask(peer, op, node, commit_loop_->machine(), now_us);
  }
  OpAction action = read_node_op(peer, op, node);
  if (auto* refusal = std::get_if<wire::Refusal>(&action)) {
    (void)send(peer, wire::OpResult{op.tag, false, std::move(*refusal), {}, {}});
    return;
  }
  const auto& event = std::get<core::Event>(action);
  commit_loop_->operate(event);
  if (std::holds_alternative<core::WorkerExit>(event)) {
    deferred_.push_back({peer, op.tag, "node.exit", node, {}});
  }
}

void Daemon::handle_elsewhere(const RouterEndpoint& router, Incoming in) {
  if (const auto* ping = std::get_if<wire::Ping>(&in.message)) {
    (void)send(in.peer, wire::Pong{ping->tag, client_message_bytes_});
    return;
  }
  if (std::holds_alternative<wire::Pong>(in.message)) {
    return worker_watch_.received(in.peer, clock_.monotonic_us());
  }
  const client::PeerKey* key = peer_keys_.find(router.user_of(in.peer), clock_.wall_ms());
  if (key == nullptr) return;  // it is forgotten at the next look at the keys
  const auto receiver = receiver_of(key->role, in.message);
  const std::string wrong = receiver ? stamp(*key, in.message)
                                     : name_of_question(in.message) + ": is not for the role " +
                                           std::string(client::peer_role_name(key->role)) +
                                           " of the key " + key->id;
  if (!wrong.empty()) return refuse_elsewhere(in.peer, in.message, key->id, wrong);
  switch (*receiver) {
    case Receiver::kClients:
      return commit_loop_->from_client(in.peer, in.message);
    case Receiver::kWorkers:
      hear_worker(in.peer, in.message, false);
      return commit_loop_->from_worker(in.peer, in.message);
    case Receiver::kOperators:
      return handle_operator(in.peer, in.message);
    case Receiver::kPair:
      return hear_standby(in.peer, in.message);
    case Receiver::kNodes:
      return handle_node(in.peer, std::get<wire::Op>(in.message), key->name);
  }
}

}  // namespace holdfast::daemon
