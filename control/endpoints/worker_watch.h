#pragma once
// Watches the workers' processes: which have ended, are stopped or silent, and how much of a
// silence is their own. Of a process elsewhere its node tells the same by datagrams (node_watch.h).
// Gives facts only; the machine judges them (control/core/fleet_liveness.cpp).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/core/config.h"
#include "control/core/events.h"
#include "shared/base/process_view.h"
#include "shared/wire/liveness.h"

namespace holdfast::daemon {

/// The processes of connected workers. Not thread-safe.
class WorkerWatch {
 public:
  /// Begins to watch the connection of a HELLO. A worker of another host has no process here: its
  /// silence is known, and what tell() is given. `is_local`: it came over a socket of this host.
  void greeted(core::PeerId peer, const wire::Hello& hello, bool is_local, std::int64_t now_us);
  /// Notes that a message came over this connection.
  void received(core::PeerId peer, std::int64_t now_us);
  void forget(core::PeerId peer) { watched_.erase(peer); }
  /// Takes in what a node tells of its workers' processes. A process that was stopped, or goes on,
  /// makes a look due.
  void tell(const std::string& node, const std::vector<wire::WorkerFact>& workers,
            std::int64_t now_us);
  /// Forgets what a node told: it tells no more, and its workers are judged by their connections.
  void forget_told(const std::string& node);

  /// Descriptors that become readable when a process ends; then call note_exit().
  std::vector<int> exit_fds() const;
  void note_exit() { exit_noted_ = true; }
  /// Time of the next look; nullopt: no worker is watched.
  std::optional<std::int64_t> next_look_us() const;

  struct Look {
    std::vector<core::WorkerHealth> health;  // of workers that are not well, or are again
    std::vector<core::PeerId> to_ping;
  };
  /// Looks at all workers. Call it after received() was called for everything that had arrived.
  /// `busy`: a worker has work or loads a model, so that a stop must be found soon.
  Look look(const core::Config& config, bool busy, std::int64_t now_us);

 private:
  /// A process elsewhere.
  struct Remote {
    std::string node;
    std::uint32_t pid = 0;
    bool told = false;
    bool stopped = false;
    std::uint64_t held_up_us = 0;    // since its node first saw it
    std::uint64_t excused_us = 0;    // of this, what was counted
    std::int64_t stopped_at_us = 0;  // on the daemon's clock
  };
  struct Watched {
    std::optional<ProcessView> process;
    std::optional<Remote> remote;
    bool ended = false;  // and this was reported
    bool told = false;   // was reported as not well
    std::int64_t last_received_us = 0;
    std::int64_t pinged_us = 0;  // 0: no ping since a message came
    std::int64_t silent_us = 0;
    std::int64_t unexcused_us = 0;
    std::int64_t stopped_since_us = 0;  // 0: it is not stopped
  };
  /// Times of a look.
  struct Span {
    std::int64_t counted_us;  // since the look before, as far as a worker could have been heard
    std::int64_t now_us;
    std::int64_t heartbeat_us;
  };
  static bool has_ended(Watched& watched);
  static bool is_stopped(const Watched& watched);
  static void begin_count(Watched& watched, std::int64_t now_us);
  static bool tell_one(Remote& remote, const wire::WorkerFact& fact, std::int64_t now_us);
  static void look_at(core::PeerId peer, Watched& watched, const Span& span, Look& look);
  static void count(Watched& watched, std::int64_t counted_us, std::int64_t now_us);
  static core::WorkerHealth health_of(core::PeerId peer, const Watched& watched,
                                      std::int64_t now_us);

  std::map<core::PeerId, Watched> watched_;
  bool exit_noted_ = false;
  std::int64_t looked_us_ = 0;
  std::int64_t next_us_ = 0;
};

}  // namespace holdfast::daemon
