#include "control/endpoints/router_endpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "control/endpoints/peer_rights.h"
#include "control/endpoints/peer_role.h"
#include "shared/base/log.h"

namespace holdfast::daemon {
namespace {

constexpr std::int32_t kMalformedMax = 8;
// The monitor reports a lost connection before the socket itself has noticed.
constexpr std::int64_t kProbeDelaysUs[] = {0, 2'000, 10'000, 50'000, 200'000};

std::string path_of(const std::string& endpoint) {
  constexpr std::string_view kIpc = "ipc://";
  return endpoint.starts_with(kIpc) ? endpoint.substr(kIpc.size()) : std::string();
}

/// Returns 0 if there is no such file.
std::uint64_t inode_of(const std::string& path) {
  struct stat info {};
  return !path.empty() && stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

}  // namespace

Result<RouterEndpoint> RouterEndpoint::open(const wire::Context& context, Options options) {
  HOLDFAST_TRY(wire::Socket socket,
               wire::Socket::open(context, wire::SocketKind::kRouter, options.socket));
  HOLDFAST_CHECKED(socket.start_monitor(context));
  RouterEndpoint router(std::move(options), std::move(socket));
  HOLDFAST_CHECKED(router.bind());
  return router;
}

Result<void> RouterEndpoint::bind() {
  HOLDFAST_CHECKED(socket_.bind(options_.endpoint));
  path_ = path_of(options_.endpoint);
  inode_ = inode_of(path_);
  return {};
}

Result<bool> RouterEndpoint::rebind_if_unlinked() {
  if (path_.empty() || inode_of(path_) == inode_) return false;
  HOLDFAST_CHECKED(bind());
  return true;
}

std::optional<Incoming> RouterEndpoint::receive(PeerId& last_peer) {
  while (auto received = socket_.receive()) {
    auto entry = by_routing_.find(received->peer);
    if (entry == by_routing_.end()) {
      entry = by_routing_.emplace(received->peer, ++last_peer).first;
      by_id_[last_peer].routing_id = received->peer;
      judge(*received, last_peer, by_id_[last_peer]);
    }
    Peer& peer = by_id_.at(entry->second);
    if (!peer.refused.empty()) {
      answer_refused(entry->second, peer, received->frame);
      continue;
    }
    if (peer.malformed >= kMalformedMax) continue;
    auto message = decode(received->frame, peer);
    if (message) return Incoming{entry->second, std::move(message).value()};
    ++malformed_;
    ++peer.malformed;
    note_malformed(message.error().what);
  }
  return std::nullopt;
}

Result<wire::Message> RouterEndpoint::decode(const std::string& frame, const Peer& peer) {
  if (frame.size() <= peer.bytes_max) return wire::decode(frame);
  return Error{Errc::kInvalidRequest, "a frame of " + std::to_string(frame.size()) +
                                          " bytes; expected " + std::to_string(peer.bytes_max) +
                                          " at most from this peer"};
}

/// Logs malformed frames: one line a minute for all peers together, with their number.
void RouterEndpoint::note_malformed(const std::string& why) {
  write_malformed(malformed_lines_.count(options_.endpoint, now_us_), why);
}

void RouterEndpoint::write_malformed(const log::LineBound::Line& line, const std::string& why) {
  if (line.count == 0) return;
  log::warn("malformed messages",
            {{"endpoint", line.subject}, {"count", line.count}, {"why", why}});
}

const std::string& RouterEndpoint::user_of(PeerId peer) const {
  static const std::string none;
  const auto it = by_id_.find(peer);
  return it == by_id_.end() ? none : it->second.user;
}

void RouterEndpoint::drop_refused_users() {
  if (!options_.refuse_user) return;
  std::vector<PeerId> refused;
  for (const auto& [id, peer] : by_id_) {
    if (peer.refused.empty() && !options_.refuse_user(peer.user).empty()) refused.push_back(id);
  }
  for (const PeerId id : refused) forget(id);
}

void RouterEndpoint::judge(const wire::Received& received, PeerId id, Peer& peer) {
  const wire::PeerCredentials& who = received.credentials;
  peer.user = received.user_id;
  if (options_.bytes_max_of_user) peer.bytes_max = options_.bytes_max_of_user(peer.user);
  peer.refused = options_.refuse_user
                     ? options_.refuse_user(peer.user)
                     : reason_to_refuse(options_.role, who, program_of(who.pid), geteuid());
  if (peer.refused.empty()) return;
  ++refused_peers_;
  // Logs the first ones, then each doubling: a peer can come back as often as it likes.
  if (refused_peers_ > 8 && !std::has_single_bit(refused_peers_)) return;
  log::warn("peer refused", {{"endpoint", options_.endpoint},
                             {"peer", id},
                             {"pid", who.pid},
                             {"why", "it " + peer.refused},
                             {"refused", refused_peers_}});
}

/// Answers operator verbs, and all questions of a peer elsewhere, with the reason of the refusal;
/// the rest is dropped.
void RouterEndpoint::answer_refused(PeerId id, const Peer& peer, std::string_view frame) {
  const auto message = wire::decode(frame);
  if (!message) return;
  if (options_.role == Role::kElsewhere) {
    const auto answer = refusal_of(message.value(), "this peer " + peer.refused);
    if (answer) (void)send(id, wire::encode(*answer));
    return;
  }
  const std::string why = "this process " + peer.refused;
  if (const auto* op = std::get_if<wire::Op>(&message.value())) {
    wire::OpResult result;
    result.tag = op->tag;
    result.refusal.code = Errc::kUnauthorized;
    result.refusal.message = op->verb + ": " + why;
    (void)send(id, wire::encode(result));
  }
}

wire::SendStatus RouterEndpoint::send(PeerId id, std::string_view frame, bool repeated) {
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return wire::SendStatus::kGone;
  Peer& peer = it->second;
  if (peer.outbox.empty()) {
    const wire::SendStatus status = socket_.send_to(peer.routing_id, frame);
    if (status == wire::SendStatus::kSent) return status;
    if (status == wire::SendStatus::kGone) {
      forget(id);
      return status;
    }
  }
  if (repeated) return wire::SendStatus::kFull;
  if (peer.outbox.size() >= options_.outbox_max) {
    // A peer that takes nothing any more counts as gone, as it must not lose messages.
    forget(id);
    return wire::SendStatus::kGone;
  }
  peer.outbox.emplace_back(frame);
  return wire::SendStatus::kSent;
}

bool RouterEndpoint::flush() {
  bool waits = false;
  std::vector<PeerId> gone;
  for (auto& [id, peer] : by_id_) {
    while (!peer.outbox.empty()) {
      const wire::SendStatus status = socket_.send_to(peer.routing_id, peer.outbox.front());
      if (status == wire::SendStatus::kGone) gone.push_back(id);
      if (status != wire::SendStatus::kSent) break;
      peer.outbox.pop_front();
    }
    waits = waits || !peer.outbox.empty();
  }
  for (const PeerId id : gone) forget(id);
  return waits;
}

void RouterEndpoint::forget(PeerId id) {
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return;
  by_routing_.erase(it->second.routing_id);
  by_id_.erase(it);
  gone_.push_back(id);
}

void RouterEndpoint::watch_links(std::int64_t now_us) {
  now_us_ = now_us;
  for (const auto& line : malformed_lines_.due(now_us)) write_malformed(line, "as before");
  while (const auto event = socket_.next_link_event()) {
    if (*event != wire::LinkEvent::kDisconnected) continue;
    probes_us_.clear();
    for (const std::int64_t delay : kProbeDelaysUs) probes_us_.push_back(now_us + delay);
  }
}

void RouterEndpoint::probe(std::int64_t now_us) {
  bool due = false;
  while (!probes_us_.empty() && probes_us_.front() <= now_us) {
    probes_us_.erase(probes_us_.begin());
    due = true;
  }
  if (!due) return;
  const std::string ping = wire::encode(wire::Ping{});
  std::vector<PeerId> gone;
  for (const auto& [id, peer] : by_id_) {
    if (socket_.send_to(peer.routing_id, ping) == wire::SendStatus::kGone) gone.push_back(id);
  }
  for (const PeerId id : gone) forget(id);
}

std::optional<std::int64_t> RouterEndpoint::next_probe_us() const {
  if (probes_us_.empty()) return std::nullopt;
  return probes_us_.front();
}

std::vector<PeerId> RouterEndpoint::take_gone() {
  return std::exchange(gone_, {});
}

}  // namespace holdfast::daemon
