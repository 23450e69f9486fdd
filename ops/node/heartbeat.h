#pragma once
// A node's heartbeat: a datagram to the daemon each 10 ms, on a thread of its own, with the state
// of the workers' processes (shared/wire/liveness.h).

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/liveness.h"

namespace holdfast::cli {

struct HeartbeatShared;  // between the thread and others

/// The thread. Methods may be called from any thread.
class Heartbeat {
 public:
  /// Starts the thread; it sends nothing before set_session(). `endpoints`: "tcp://ADDRESS:PORT" of
  /// the daemon's listener; of a pair both, as the session's key is of one of them. Errors as
  /// wire::UdpSocket::open_to().
  static Result<std::unique_ptr<Heartbeat>> start(const std::vector<std::string>& endpoints);
  ~Heartbeat();  // ends the thread
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Begins a session, unless it is the one that goes on already.
  void set_session(const wire::LivenessSession& session);
  /// Names the processes to tell of.
  void set_workers(std::vector<pid_t> pids);

 private:
  explicit Heartbeat(std::unique_ptr<HeartbeatShared> shared);
  std::unique_ptr<HeartbeatShared> shared_;
};

}  // namespace holdfast::cli
