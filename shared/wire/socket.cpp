#include "shared/wire/socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <utility>

namespace holdfast::wire {
namespace {

// Without it a server accepts everybody when no ZAP handler runs. zmq.h declares it only with the
// draft API; setting it fails loudly where libzmq does not know it.
constexpr int kZapEnforceDomain = 93;
// Likewise ZMQ_MSG_PROPERTY_PEER_ADDRESS; without it no peer is identified, and none accepted.
constexpr const char* kPeerAddress = "Peer-Address";
constexpr const char* kUserId = "User-Id";
constexpr std::int64_t kSeekFirstUs = 150'000;
constexpr std::int64_t kSeekMostUs = 2'000'000;

Error zmq_error(const std::string& operation) {
  return {Errc::kIo, operation + ": " + zmq_strerror(zmq_errno())};
}

template <class T>
bool set(void* socket, int option, T value) {
  return zmq_setsockopt(socket, option, &value, sizeof(value)) == 0;
}

bool set_text(void* socket, int option, const std::string& value) {
  return zmq_setsockopt(socket, option, value.data(), value.size()) == 0;
}

bool set_transport(void* s, const SocketOptions& o) {
  // LINGER 0: an answer that was not sent is made again from the database, never waited for.
  const std::pair<int, int> options[] = {{ZMQ_LINGER, 0},
                                         {ZMQ_RECONNECT_IVL, o.reconnect_ms},
                                         {ZMQ_RECONNECT_IVL_MAX, o.reconnect_max_ms},
                                         {ZMQ_SNDHWM, o.send_high_water},
                                         {ZMQ_RCVHWM, o.receive_high_water},
                                         {ZMQ_BACKLOG, o.backlog},
                                         {ZMQ_HANDSHAKE_IVL, 2000}};
  const auto set_option = [s](const std::pair<int, int>& option) {
    return set(s, option.first, option.second);
  };
  if (!std::all_of(std::begin(options), std::end(options), set_option)) return false;
  if (!set(s, ZMQ_MAXMSGSIZE, o.message_bytes_max)) return false;
  return o.heartbeat_interval_ms <= 0 || (set(s, ZMQ_HEARTBEAT_IVL, o.heartbeat_interval_ms) &&
                                          set(s, ZMQ_HEARTBEAT_TIMEOUT, o.heartbeat_timeout_ms));
}

bool set_curve(void* s, const SocketOptions& o) {
  if (o.curve_server) {
    return set(s, ZMQ_CURVE_SERVER, 1) && set_text(s, ZMQ_CURVE_SECRETKEY, o.secret_key) &&
           set_text(s, ZMQ_ZAP_DOMAIN, "holdfast") && set(s, kZapEnforceDomain, 1);
  }
  if (o.server_key.empty()) return true;
  return set_text(s, ZMQ_CURVE_SERVERKEY, o.server_key) &&
         set_text(s, ZMQ_CURVE_PUBLICKEY, o.public_key) &&
         set_text(s, ZMQ_CURVE_SECRETKEY, o.secret_key);
}

bool uses_curve(void* s) {
  int mechanism = 0;
  std::size_t size = sizeof(mechanism);
  return zmq_getsockopt(s, ZMQ_MECHANISM, &mechanism, &size) == 0 && mechanism == ZMQ_CURVE;
}

/// Notes what libzmq knows of the sender of a part: a user of the network by its key, a process of
/// this host by its socket.
void note_peer(zmq_msg_t& part, bool authenticates, Received& peer) {
  const char* name = zmq_msg_gets(&part, authenticates ? kUserId : kPeerAddress);
  if (name == nullptr) return;
  if (authenticates) {
    peer.user_id = name;
  } else {
    peer.credentials = parse_peer_address(name);
  }
}

/// Receives one part of a message; `more` is set if others follow. False when there is none.
bool receive_part(void* socket, std::string& out, bool& more, Received* peer = nullptr,
                  bool authenticates = false) {
  zmq_msg_t part;
  zmq_msg_init(&part);
  int n = -1;
  do {
    n = zmq_msg_recv(&part, socket, ZMQ_DONTWAIT);
  } while (n < 0 && zmq_errno() == EINTR);
  if (n >= 0) {
    out.assign(static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
    more = zmq_msg_more(&part) != 0;
    if (peer != nullptr) note_peer(part, authenticates, *peer);
  }
  zmq_msg_close(&part);
  return n >= 0;
}

SendStatus send_part(void* socket, std::string_view bytes, int flags) {
  int n = -1;
  do {
    n = zmq_send(socket, bytes.data(), bytes.size(), ZMQ_DONTWAIT | flags);
  } while (n < 0 && zmq_errno() == EINTR);
  if (n >= 0) return SendStatus::kSent;
  // Any other fault of the connection shows in the monitor; the caller repeats or drops.
  return zmq_errno() == EHOSTUNREACH ? SendStatus::kGone : SendStatus::kFull;
}

}  // namespace

PeerCredentials parse_peer_address(std::string_view address) {
  std::int64_t numbers[3] = {};  // pid, gid, uid, from the end of the text
  for (std::int64_t& number : numbers) {
    const std::size_t colon = address.rfind(':');
    if (colon == std::string_view::npos) return {};
    const std::string_view digits = address.substr(colon + 1);
    const auto [end, failed] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (failed != std::errc() || end != digits.data() + digits.size()) return {};
    address = address.substr(0, colon);
  }
  // The host in a Unix socket's name has no colon; an IPv6 address has.
  if (address.find(':') != std::string_view::npos) return {};
  return {true, numbers[2], numbers[0]};
}

Context::Context() : context_(zmq_ctx_new()) {
  CHECK(context_ != nullptr);
}
Context::~Context() {
  while (zmq_ctx_term(context_) != 0 && zmq_errno() == EINTR) {
  }
}

Result<Socket> Socket::open(const Context& context, SocketKind kind, const SocketOptions& options) {
  const bool router = kind == SocketKind::kRouter;
  void* raw = zmq_socket(context.raw(), router ? ZMQ_ROUTER : ZMQ_DEALER);
  if (raw == nullptr) return zmq_error("open socket");
  Socket socket(raw, options.curve_server);
  bool ok = set_transport(raw, options) && set_curve(raw, options);
  // A DEALER queues nothing for an absent peer (the state is repeated after a reconnect); a ROUTER
  // reports that a peer is gone instead of dropping in silence.
  ok = ok && (router ? set(raw, ZMQ_ROUTER_MANDATORY, 1) : set(raw, ZMQ_IMMEDIATE, 1));
  if (!ok) return zmq_error("open socket: set options");
  return socket;
}

Socket::Socket(Socket&& other) noexcept
    : socket_(std::exchange(other.socket_, nullptr)),
      authenticates_(other.authenticates_),
      monitor_(std::exchange(other.monitor_, nullptr)),
      endpoints_(std::move(other.endpoints_)),
      endpoint_(other.endpoint_),
      sought_us_(other.sought_us_),
      seek_us_(other.seek_us_),
      malformed_(other.malformed_) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    socket_ = std::exchange(other.socket_, nullptr);
    authenticates_ = other.authenticates_;
    monitor_ = std::exchange(other.monitor_, nullptr);
    endpoints_ = std::move(other.endpoints_);
    endpoint_ = other.endpoint_;
    sought_us_ = other.sought_us_;
    seek_us_ = other.seek_us_;
    malformed_ = other.malformed_;
  }
  return *this;
}

Socket::~Socket() {
  close();
}

void Socket::close() {
  if (socket_ != nullptr && monitor_ != nullptr) zmq_socket_monitor(socket_, nullptr, 0);
  if (monitor_ != nullptr) zmq_close(std::exchange(monitor_, nullptr));
  if (socket_ != nullptr) zmq_close(std::exchange(socket_, nullptr));
}

Result<void> Socket::bind(const std::string& endpoint) {
  const bool local = endpoint.starts_with("ipc://") || endpoint.starts_with("inproc://");
  if (!local && !authenticates_) {
    return Error{Errc::kUsage, "bind " + endpoint +
                                   ": an address of the network without keys of its peers; "
                                   "expected an ipc address, or a socket with CURVE"};
  }
  if (zmq_bind(socket_, endpoint.c_str()) != 0) return zmq_error("bind " + endpoint);
  return {};
}

Result<void> Socket::connect(const std::string& endpoints) {
  endpoints_.clear();
  endpoint_ = 0;
  for (std::size_t from = 0; from <= endpoints.size();) {
    const std::size_t end = std::min(endpoints.find(',', from), endpoints.size());
    endpoints_.push_back(endpoints.substr(from, end - from));
    from = end + 1;
  }
  const std::string& first = endpoints_.front();
  if (zmq_connect(socket_, first.c_str()) != 0) return zmq_error("connect " + first);
  return {};
}

void Socket::seek(bool connected, std::int64_t now_us) {
  if (endpoints_.size() < 2) return;
  if (connected || sought_us_ == 0) {
    sought_us_ = now_us;
    seek_us_ = kSeekFirstUs;
  }
  if (now_us - sought_us_ < seek_us_) return;
  sought_us_ = now_us;
  // Longer from time to time: a far daemon needs a while for the handshake.
  seek_us_ = std::min(seek_us_ + seek_us_ / 8, kSeekMostUs);
  (void)zmq_disconnect(socket_, endpoints_[endpoint_].c_str());
  endpoint_ = (endpoint_ + 1) % endpoints_.size();
  (void)zmq_connect(socket_, endpoints_[endpoint_].c_str());
}

std::string Socket::endpoint() const {
  char text[512] = {};
  std::size_t size = sizeof(text);
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size) != 0) return {};
  return text;
}

SendStatus Socket::send(std::string_view frame) {
  return send_part(socket_, frame, 0);
}

SendStatus Socket::send_to(std::string_view peer, std::string_view frame) {
  const SendStatus routed = send_part(socket_, peer, ZMQ_SNDMORE);
  return routed == SendStatus::kSent ? send_part(socket_, frame, 0) : routed;
}

std::optional<Received> Socket::receive() {
  int type = 0;
  std::size_t size = sizeof(type);
  CHECK(zmq_getsockopt(socket_, ZMQ_TYPE, &type, &size) == 0);
  Received message;
  for (;;) {
    bool more = false;
    if (type == ZMQ_ROUTER) {
      if (!receive_part(socket_, message.peer, more)) return std::nullopt;
      if (!more) {
        ++malformed_;
        continue;
      }
    }
    // The peer's name comes with each message: libzmq omits it from the routing id when a poll has
    // read the socket before.
    Received* peer = type == ZMQ_ROUTER ? &message : nullptr;
    if (!receive_part(socket_, message.frame, more, peer, authenticates_)) return std::nullopt;
    if (!more) return message;
    ++malformed_;
    std::string rest;
    while (more && receive_part(socket_, rest, more)) {
    }
  }
}

Result<void> Socket::start_monitor(const Context& context) {
  static std::atomic<std::uint64_t> counter{0};
  const std::string name = "inproc://monitor-" + std::to_string(counter.fetch_add(1));
  int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
               (authenticates_ ? 0 : ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
  if (!authenticates_ && uses_curve(socket_)) events |= ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
  if (zmq_socket_monitor(socket_, name.c_str(), events) != 0) return zmq_error("monitor socket");
  monitor_ = zmq_socket(context.raw(), ZMQ_PAIR);
  if (monitor_ == nullptr) return zmq_error("monitor socket");
  set(monitor_, ZMQ_LINGER, 0);
  if (zmq_connect(monitor_, name.c_str()) != 0) return zmq_error("monitor socket");
  return {};
}

std::optional<LinkEvent> Socket::next_link_event() {
  if (monitor_ == nullptr) return std::nullopt;
  std::string head;
  std::string address;
  bool more = false;
  while (receive_part(monitor_, head, more)) {
    while (more && receive_part(monitor_, address, more)) {
    }
    std::uint16_t event = 0;
    if (head.size() < sizeof(event)) continue;
    std::memcpy(&event, head.data(), sizeof(event));
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return LinkEvent::kConnected;
    if (event == ZMQ_EVENT_DISCONNECTED) return LinkEvent::kDisconnected;
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return LinkEvent::kRefused;
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) return LinkEvent::kBroken;
  }
  return std::nullopt;
}

WakeUp::WakeUp() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(fd_ >= 0);
}
WakeUp::~WakeUp() {
  ::close(fd_);
}

void WakeUp::notify() const {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the reader is awake already.
  [[maybe_unused]] const ssize_t n = ::write(fd_, &one, sizeof(one));
}

void WakeUp::clear() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(fd_, &count, sizeof(count));
}

int wait_readable(std::vector<WaitItem>& items, int timeout_ms) {
  std::vector<zmq_pollitem_t> polls;
  std::vector<std::size_t> owner;
  for (std::size_t i = 0; i < items.size(); ++i) {
    WaitItem& item = items[i];
    item.ready = false;
    if (item.socket == nullptr) {
      polls.push_back({item.zmq, item.fd, ZMQ_POLLIN, 0});
      owner.push_back(i);
      continue;
    }
    polls.push_back({item.socket->raw(), 0, ZMQ_POLLIN, 0});
    owner.push_back(i);
    if (item.socket->raw_monitor() == nullptr) continue;
    polls.push_back({item.socket->raw_monitor(), 0, ZMQ_POLLIN, 0});
    owner.push_back(i);
  }
  if (zmq_poll(polls.data(), static_cast<int>(polls.size()), timeout_ms) <= 0) return 0;
  int ready = 0;
  for (std::size_t i = 0; i < polls.size(); ++i) {
    if (polls[i].revents == 0 || items[owner[i]].ready) continue;
    items[owner[i]].ready = true;
    ++ready;
  }
  return ready;
}

}  // namespace holdfast::wire
