#include "control/endpoints/node_listener.h"

#include <poll.h>

#include <optional>
#include <utility>

namespace holdfast::daemon {
namespace {

constexpr int kTurnMs = 5;
// Then the time is looked at again: a flood must not delay what is due. Silence does not count
// meanwhile, as what was sent in time may be among the unread.
constexpr int kDatagramsOfATurn = 256;

}  // namespace

Result<std::unique_ptr<NodeListener>> NodeListener::open(const std::string& endpoint,
                                                         const wire::WakeUp& wake,
                                                         const Clock& clock) {
  HOLDFAST_TRY(wire::UdpSocket socket, wire::UdpSocket::bind(endpoint));
  std::unique_ptr<NodeListener> listener(new NodeListener(std::move(socket), wake, clock));
  listener->thread_ = std::thread([raw = listener.get()] { raw->run(); });
  return listener;
}

NodeListener::~NodeListener() {
  stop_.store(true);
  thread_.join();
}

void NodeListener::run() {
  while (!stop_.load()) {
    pollfd readable{socket_.fd(), POLLIN, 0};
    (void)poll(&readable, 1, kTurnMs);
    turn();
  }
}

void NodeListener::turn() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(backlog_, true)) watch_.skip(clock_.monotonic_us());
  watch_.advance(clock_.monotonic_us());
  wire::UdpAddress from;
  for (int i = 0; i < kDatagramsOfATurn && backlog_; ++i) {
    const std::optional<std::string> datagram = socket_.receive(&from);
    backlog_ = datagram.has_value();
    if (datagram) (void)watch_.received(*datagram, from);
  }
  for (const NodeWatch::Outgoing& out : watch_.due()) (void)socket_.send_to(out.to, out.datagram);
  if (!backlog_ && watch_.is_urgent()) {
    urgent_ = true;
    wake_.notify();
  }
}

wire::LivenessSession NodeListener::session(const std::string& node,
                                            const std::string& incarnation) {
  const std::lock_guard lock(mutex_);
  return watch_.session(node, incarnation);
}

void NodeListener::close(const std::string& node) {
  const std::lock_guard lock(mutex_);
  watch_.close(node);
}

std::vector<std::string> NodeListener::nodes() const {
  const std::lock_guard lock(mutex_);
  return watch_.nodes();
}

NodeWatch::Told NodeListener::take() {
  const std::lock_guard lock(mutex_);
  urgent_ = false;
  return watch_.take();
}

std::uint64_t NodeListener::refused() const {
  const std::lock_guard lock(mutex_);
  return watch_.refused();
}

}  // namespace holdfast::daemon
