#pragma once
// Looks after the workers' processes: which have ended, are stopped, or are silent, and how much of
// a silence is their own. Facts only; the machine judges them (control/core/machine_liveness.cpp).

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "control/core/config.h"
#include "control/core/events.h"
#include "shared/base/process_view.h"

namespace holdfast::link {

class WorkerWatch {
 public:
  /// A HELLO came: from here on this connection is watched. A worker of another host has no process
  /// here: of it only its silence is known.
  void greeted(core::PeerId peer, const wire::Hello& hello, std::int64_t now_us);
  /// Anything came over this connection.
  void heard(core::PeerId peer, std::int64_t now_us);
  void forget(core::PeerId peer) { watched_.erase(peer); }

  /// Descriptors that become readable when a process ends: note_exit() then.
  std::vector<int> exit_fds() const;
  void note_exit() { exit_seen_ = true; }
  /// Time of the next look; nullopt: nobody to look at.
  std::optional<std::int64_t> next_look_us() const;

  struct Look {
    std::vector<core::WorkerHealth> health;  // of those that are not well, and of those again well
    std::vector<core::PeerId> to_ping;
  };
  /// Call it after everything that had arrived was reported by heard(). `busy`: somebody has
  /// work or loads a model, so that a stop must be found soon.
  Look look(const core::Config& config, bool busy, std::int64_t now_us);

 private:
  struct Watched {
    std::optional<ProcessView> process;
    bool ended = false;  // and told
    bool told = false;   // that it is not well
    std::int64_t heard_us = 0;
    std::int64_t pinged_us = 0;  // 0: nothing was asked since it was heard
    std::int64_t silent_us = 0;
    std::int64_t unexcused_us = 0;
    std::int64_t stopped_since_us = 0;  // 0: it is not stopped
  };
  static bool has_ended(Watched& watched);
  static void count(Watched& watched, std::int64_t counted_us, std::int64_t now_us);
  static core::WorkerHealth health_of(core::PeerId peer, const Watched& watched,
                                      std::int64_t now_us);

  std::map<core::PeerId, Watched> watched_;
  bool exit_seen_ = false;
  std::int64_t looked_us_ = 0;
  std::int64_t next_us_ = 0;
};

}  // namespace holdfast::link
