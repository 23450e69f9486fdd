#pragma once
// One ROUTER socket of the daemon with its peers: numbers for routing ids, bounded outboxes for
// peers that must not lose messages, and pings that find peers that are gone.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/core/types.h"
#include "shared/base/line_bound.h"
#include "shared/wire/frame.h"
#include "shared/wire/socket.h"

namespace holdfast::daemon {

using core::PeerId;

/// The kind of peers for which a socket is: each has its own file in the state directory, and
/// rights.
enum class Role : std::uint8_t {
  kWorker,
  kOperator,
  kIngress,
  kClient,
  kGateway,
  kElsewhere,  // peers of the network, each by its key (peer_rights.h); has no file
};

/// A message with the number of its peer.
struct Incoming {
  PeerId peer = 0;
  wire::Message message;
};

/// A bound socket and its peers. A peer's number is never used again in this process. Not
/// thread-safe.
class RouterEndpoint {
 public:
  struct Options {
    Role role = Role::kClient;
    std::string endpoint;
    wire::SocketOptions socket;
    std::size_t outbox_max = 0;  // queued messages of a full peer
    /// kElsewhere: why the peer with this user id (wire::Received) is refused, a sentence without
    /// its subject; empty: it is let in.
    std::function<std::string(const std::string& user)> refuse_user = {};
    /// kElsewhere: bytes of the longest frame that this user may send.
    std::function<std::size_t(const std::string& user)> bytes_max_of_user = {};
  };
  static Result<RouterEndpoint> open(const wire::Context& context, Options options);

  /// Binds again if the socket's file is gone or was replaced, as no new peer could connect.
  /// Connected peers stay. Returns true if it bound again.
  Result<bool> rebind_if_unlinked();

  Role role() const { return options_.role; }
  const std::string& endpoint() const { return options_.endpoint; }
  /// Returns the address that others reach: with the port that was picked for "tcp://HOST:*".
  std::string bound_endpoint() const { return socket_.endpoint(); }
  const wire::Socket& socket() const { return socket_; }

  /// Returns the next decoded message, if there is one. Malformed frames are counted and dropped; a
  /// peer with eight of them is ignored from then on. `last_peer` numbers new connections.
  std::optional<Incoming> receive(PeerId& last_peer);
  /// Sends a frame, or puts it into the peer's outbox. kGone: the peer is forgotten (and listed by
  /// take_gone). `repeated`: the sender itself repeats what a full peer does not take, so that it
  /// is not put there: kFull. Frames to one peer leave in their order.
  wire::SendStatus send(PeerId peer, std::string_view frame, bool repeated = false);
  /// Sends what waits in outboxes. Returns true if something still waits.
  bool flush();

  /// Returns the user id of a peer; empty: it has none, or is gone.
  const std::string& user_of(PeerId peer) const;
  /// Forgets the peers whose user is refused by now (and lists them in take_gone); nothing of
  /// theirs is received any more.
  void drop_refused_users();

  /// Handles connection events; `now_us` starts a series of pings when one was lost.
  void watch_links(std::int64_t now_us);
  /// Pings all peers when it is time: a ROUTER learns only then which are gone.
  void probe(std::int64_t now_us);
  std::optional<std::int64_t> next_probe_us() const;
  /// Returns the peers that are gone since the last call.
  std::vector<PeerId> take_gone();
  std::uint64_t malformed() const { return malformed_; }
  /// Number of peers that may not use this socket; nothing of theirs is received.
  std::uint64_t refused_peers() const { return refused_peers_; }
  std::size_t peers() const { return by_id_.size(); }

 private:
  struct Peer {
    std::string routing_id;
    std::string user;
    std::deque<std::string> outbox;
    std::int32_t malformed = 0;
    std::size_t bytes_max = SIZE_MAX;
    std::string refused;  // why it may not use this socket; empty: it may
  };
  RouterEndpoint(Options options, wire::Socket socket)
      : options_(std::move(options)), socket_(std::move(socket)) {}
  static Result<wire::Message> decode(const std::string& frame, const Peer& peer);
  void forget(PeerId id);
  void note_malformed(const std::string& why);
  void write_malformed(const log::LineBound::Line& line, const std::string& why);
  Result<void> bind();
  void judge(const wire::Received& received, PeerId id, Peer& peer);
  void answer_refused(PeerId id, const Peer& peer, std::string_view frame);

  Options options_;
  wire::Socket socket_;
  std::unordered_map<std::string, PeerId> by_routing_;
  std::map<PeerId, Peer> by_id_;
  std::vector<PeerId> gone_;
  std::vector<std::int64_t> probes_us_;  // ascending
  std::uint64_t malformed_ = 0;
  log::LineBound malformed_lines_;
  std::int64_t now_us_ = 0;  // of the last watch_links()
  std::string path_;         // of an ipc socket's file; empty: it has none
  std::uint64_t inode_ = 0;  // of that file
  std::uint64_t refused_peers_ = 0;
};

}  // namespace holdfast::daemon
