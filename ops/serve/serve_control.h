#pragma once
// The supervisor's calls of the daemon: is it up, register and load the models, report how workers
// ended. Runs on threads of its own, because every call may block while the daemon is down; the
// main thread only forks, reaps and reads the state here.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/serve/bound_workers.h"
#include "ops/serve/supervisor.h"
#include "ops/serve/worker_end.h"

namespace holdfast::cli {

/// A model that `serve` registers and loads at its start.
struct ServedModel {
  std::string name;
  std::string path;          // absolute
  std::string profile;       // that its name adds (shared/profile), of Ollama's models; empty: none
  std::int64_t context = 0;  // that its source asks for; 0: none
};

/// The part of `serve`'s arguments that concerns the daemon.
struct ServeOptions {
  std::string state_dir;
  std::vector<ServedModel> models;
  std::int64_t context = 0;  // 0 = the daemon's default
  std::string kv_type;
  std::string engine_options;  // JSON for the fake engine
  std::string http_url;        // probed before ready; empty = no HTTP
  bool progress = false;       // draw loading progress on stderr
  std::string programs;        // folder of our programs
};

/// The threads that call the daemon, and their findings. The methods may be called from any thread;
/// none waits for the daemon but drain_limit_ms().
class ServeControl {
 public:
  enum class Phase : std::uint8_t { kDaemonStarting, kModelsLoading, kReady, kDegraded, kFailed };
  struct Report {
    Phase phase = Phase::kDaemonStarting;
    std::vector<std::string> errors;  // of models, one line each
    bool keyless = false;             // no key of the gateway is valid
    std::vector<BoundClass> bound;    // numerics classes that requests are bound to
  };

  explicit ServeControl(ServeOptions options);
  ~ServeControl();  // called once the threads are done; `serve` leaves by _Exit instead

  /// Sets the pid of the daemon child: another process that answers on the socket is not ours.
  void set_daemon_pid(pid_t pid);
  /// Reports a worker's end.
  void worker_exited(WorkerEnd end);
  Report report() const;
  /// Milliseconds that running work may take at the end, by the configuration (asks for up to 1 s).
  std::int64_t drain_limit_ms() const;

  struct Shared;  // what the threads share; opaque

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace holdfast::cli
