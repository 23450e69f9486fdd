#pragma once
// The supervisor's conversation with the daemon: is it up, register and load the models, tell how
// workers ended. Runs on threads of its own, because every call may block while the daemon is down;
// the main thread only forks, reaps and asks here how things stand.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/cli/supervisor.h"

namespace holdfast::cli {

struct ModelWish {
  std::string name;
  std::string path;  // absolute
};

struct ServeWish {
  std::string state_dir;
  std::vector<ModelWish> models;
  std::int64_t context = 0;  // 0 = the daemon's default
  std::string kv_type;
  std::string engine_options;  // JSON for the fake engine
  std::string http_url;        // probed before ready; empty = no HTTP door
  bool progress = false;       // draw loading progress on stderr
};

class ServeControl {
 public:
  enum class Phase : std::uint8_t { kDaemonStarting, kModelsLoading, kReady, kDegraded, kFailed };
  struct Report {
    Phase phase = Phase::kDaemonStarting;
    std::vector<std::string> errors;  // of models, one line each
    bool keyless = false;             // no key of the gateway holds
  };

  explicit ServeControl(ServeWish wish);
  ~ServeControl();  // only used when the threads are done; `serve` leaves by _Exit instead

  /// The daemon child's pid: another process that answers on the socket is not ours.
  void set_daemon_pid(pid_t pid);
  /// `step`: marks of the step that was running, nullopt if that is not known.
  void worker_exited(const ChildExit& exit, std::optional<std::vector<std::uint64_t>> step);
  Report report() const;
  /// What running work may take at the end, by the configuration (a second at most to ask).
  std::int64_t drain_limit_ms() const;

  struct Shared;  // what the threads share; opaque

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace holdfast::cli
