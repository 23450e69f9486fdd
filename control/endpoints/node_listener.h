#pragma once
// The daemon's end of the datagrams of liveness (node_watch.h): a UDP socket at the listener's
// address, on a thread of its own, so that neither a slow commit delays a datagram nor each
// datagram a turn of the daemon's loop.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "control/endpoints/node_watch.h"
#include "shared/base/clock.h"
#include "shared/wire/socket.h"
#include "shared/wire/udp.h"

namespace holdfast::daemon {

/// The thread and what it has found. Methods may be called from any thread.
class NodeListener {
 public:
  /// Binds at the host and port of "tcp://ADDRESS:PORT" and starts the thread. `wake` is notified
  /// when take() should be called soon; it and the clock must outlive the listener. Errors as
  /// wire::UdpSocket::bind().
  static Result<std::unique_ptr<NodeListener>> open(const std::string& endpoint,
                                                    const wire::WakeUp& wake, const Clock& clock);
  ~NodeListener();  // ends the thread
  NodeListener(const NodeListener&) = delete;
  NodeListener& operator=(const NodeListener&) = delete;

  /// As NodeWatch::session().
  wire::LivenessSession session(const std::string& node, const std::string& incarnation);
  /// As NodeWatch::close().
  void close(const std::string& node);
  std::vector<std::string> nodes() const;
  /// True if a turn since the last take() had something urgent (NodeWatch::is_urgent()). Takes no
  /// lock.
  bool is_urgent() const { return urgent_; }
  /// As NodeWatch::take().
  NodeWatch::Told take();
  /// Datagrams that were not believed, as NodeWatch::refused().
  std::uint64_t refused() const;

 private:
  NodeListener(wire::UdpSocket socket, const wire::WakeUp& wake, const Clock& clock)
      : socket_(std::move(socket)), wake_(wake), clock_(clock) {}
  void run();
  void turn();

  const wire::UdpSocket socket_;
  const wire::WakeUp& wake_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  NodeWatch watch_;       // under the mutex
  bool backlog_ = false;  // the last turn left datagrams unread
  std::atomic<bool> urgent_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace holdfast::daemon
