#pragma once
// libzmq behind RAII: DEALER and ROUTER sockets with the options of the protocol, one frame a
// message, never blocking; a monitor for connections; a poll over sockets and descriptors. A socket
// belongs to one thread at a time. schema/protocol.md, "Transport".

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::wire {

/// The libzmq context: one per process (one libzmq I/O thread), or one per test. Must outlive its
/// sockets. Thread-safe.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void* raw() const { return context_; }

 private:
  void* context_;
};

/// The two patterns of ZeroMQ in use: a dealer has one peer, a router many, each by its routing id.
enum class SocketKind : std::uint8_t { kDealer, kRouter };

/// Options of a socket; times in milliseconds.
struct SocketOptions {
  int heartbeat_interval_ms = 20;  // 0 = no heartbeats
  int heartbeat_timeout_ms = 60;   // a silent peer's connection is closed after it
  int reconnect_ms = 20;
  int reconnect_max_ms = 200;
  int send_high_water = 1000;  // frames in each direction of each peer
  int receive_high_water = 1000;
  std::int64_t message_bytes_max = 4 << 20;  // longer: libzmq closes the connection
  int backlog = 512;
  // CURVE (Z85 keys). Client: all three. Server: secret_key alone, with curve_server.
  std::string server_key, public_key, secret_key;
  bool curve_server = false;
};

/// The fate of a frame that was to be sent.
enum class SendStatus : std::uint8_t {
  kSent,  // passed to libzmq; only an answer proves arrival
  kFull,  // high-water mark, or (DEALER) not connected now: try again later
  kGone,  // (ROUTER) no such peer any more
};

/// The process at the other end of a Unix socket, as the kernel recorded it at the connection.
struct PeerCredentials {
  bool identified = false;  // false: not a Unix socket
  std::int64_t uid = -1;
  std::int64_t pid = 0;  // 0: a process of another namespace
};
/// Parses libzmq's name of a peer, "localhost:UID:GID:PID" for a Unix socket.
PeerCredentials parse_peer_address(std::string_view address);

/// A received message.
struct Received {
  std::string peer;  // ROUTER: routing id of the connection, an opaque byte string; DEALER: empty
  std::string frame;
  PeerCredentials credentials;  // ROUTER
  std::string user_id;          // ROUTER with CURVE: the name that ZapHandler::Judge gave the peer
};

enum class LinkEvent : std::uint8_t {
  kConnected,     // after the handshake
  kDisconnected,  // of a connection that had one
  kRefused,       // (DEALER) the other side does not accept our key
  kBroken,        // (DEALER with CURVE) the handshake ended without a word: the other side has
                  // another key, or went away in that moment
};

/// A DEALER or ROUTER socket. One thread at a time; no call blocks.
class Socket {
 public:
  static Result<Socket> open(const Context& context, SocketKind kind, const SocketOptions& options);
  Socket(Socket&&) noexcept;
  Socket& operator=(Socket&&) noexcept;
  ~Socket();  // LINGER 0: unsent messages are dropped

  /// Binds the socket. kIo with endpoint and cause. libzmq replaces a stale ipc file of a dead
  /// process. kUsage for an address of the network without SocketOptions::curve_server: everybody
  /// could connect there.
  Result<void> bind(const std::string& endpoint);
  /// Connects to an endpoint, or to the first of a list with commas between: one of them at a time
  /// is the daemon's (seek()). kIo.
  Result<void> connect(const std::string& endpoints);
  /// (DEALER) Goes on to the next endpoint of the list while there is no connection: every 150 ms
  /// at first, then slower. Call it in each turn of the loop.
  void seek(bool connected, std::int64_t now_us);
  /// Returns the bound or connected address ("tcp://127.0.0.1:43210" after "tcp://127.0.0.1:*").
  std::string endpoint() const;

  /// Sends a frame on a DEALER.
  SendStatus send(std::string_view frame);
  /// Sends a frame to one peer of a ROUTER.
  SendStatus send_to(std::string_view peer, std::string_view frame);
  /// Returns the next message, if there is one. Messages that are not exactly one frame are dropped
  /// and counted (malformed()).
  std::optional<Received> receive();
  std::uint64_t malformed() const { return malformed_; }

  /// Starts a monitor; afterwards next_link_event() returns its events, oldest first. For a ROUTER
  /// the events do not identify the peer (a ping does); for a DEALER there is only one.
  Result<void> start_monitor(const Context& context);
  std::optional<LinkEvent> next_link_event();

  void* raw() const { return socket_; }
  void* raw_monitor() const { return monitor_; }  // nullptr without one

 private:
  Socket(void* socket, bool authenticates) : socket_(socket), authenticates_(authenticates) {}
  void close();
  void* socket_ = nullptr;
  bool authenticates_ = false;  // its peers need a key
  void* monitor_ = nullptr;
  std::vector<std::string> endpoints_;  // of connect()
  std::size_t endpoint_ = 0;            // the one in use
  std::int64_t sought_us_ = 0;          // since when it is tried
  std::int64_t seek_us_ = 0;            // for how long
  std::uint64_t malformed_ = 0;
};

/// Wakes a thread that waits in wait_readable(). notify() may be called from any thread and from a
/// signal handler.
class WakeUp {
 public:
  WakeUp();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;
  void notify() const;
  void clear() const;
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// A socket or descriptor to wait for.
struct WaitItem {
  const Socket* socket = nullptr;  // its messages and, if it has one, its monitor
  int fd = -1;                     // or a descriptor
  bool ready = false;              // out
  void* zmq = nullptr;             // or another socket of libzmq
};

/// Waits until something can be read, at most timeout_ms (-1 = for ever). Returns how many items
/// are ready; an interrupting signal ends the wait early with 0.
int wait_readable(std::vector<WaitItem>& items, int timeout_ms);

}  // namespace holdfast::wire
