#pragma once
// The parent of the daemon, the ingress helpers, the workers and the gateway: starts them, restarts
// dead ones for ever, stops them in order. Knows processes and signals, nothing of the protocol.
//
// Children die with the parent (PR_SET_PDEATHSIG). Linux ties that signal to the *thread* that
// forked, so everything here must be called on the main thread (CHECKed).

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/serve/liveness_probe.h"
#include "ops/serve/restart_policy.h"
#include "shared/base/result.h"

namespace holdfast::cli {

/// A program to run for ever: its arguments, environment, log and what counts as hung.
struct ChildSpec {
  std::string role;                // "daemon", "ingress", "worker", "gateway"
  std::string name;                // unique: "worker-0"
  std::vector<std::string> argv;   // argv[0] is the program's path; no shell, no PATH search
  std::vector<std::string> env;    // "NAME=value", added to our own environment
  std::vector<int> inherited_fds;  // open in the child under the same numbers
  std::string log_path;            // stdout and stderr are appended to it; empty = our stderr
  std::int64_t restart_max_ms = RestartPolicy::kMaxMs;
  /// Time for which a child may owe an answer to probes (shared/base/probe.h) before it is ended
  /// and started again. 0: it is not probed.
  std::int64_t probe_timeout_ms = 0;
  int hung_signal = SIGABRT;  // ends a hung child
};

/// The end of a child, and why.
struct ChildExit {
  std::string role;
  std::string name;
  pid_t pid = 0;
  int status = 0;  // exit status, when signal is 0
  int signal = 0;
  bool oom = false;  // SIGKILL while the kernel's count of out-of-memory kills went up
  std::int64_t lived_ms = 0;
  std::int64_t restart_in_ms = 0;
  bool retired = false;  // it was told to end, and is not started again
};

/// A child as status shows it.
struct ChildState {
  std::string role;
  std::string name;
  pid_t pid = 0;  // 0 while it is down
  std::int64_t restarts = 0;
};

/// All children of a `serve`. Main thread only.
class Supervisor {
 public:
  struct Hooks {
    std::function<void(const ChildExit&)> on_exit;  // before the restart
    std::function<void()> on_change;                // pids have changed
  };
  enum class Event : std::uint8_t { kNone, kStop };

  /// Blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD in this thread (threads made later inherit that)
  /// and receives them through a descriptor. One at a time in a process.
  static Result<std::unique_ptr<Supervisor>> create(Hooks hooks);
  ~Supervisor();  // kills what still runs
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Starts a child and restarts it from now on. kIo if the program cannot be executed.
  Result<void> add(ChildSpec spec);
  /// Handles signals, deaths and due restarts for at most `timeout_ms`; returns at the first signal
  /// that asks us to stop (kStop), or early after any other event (kNone).
  Event wait(std::int64_t timeout_ms);
  /// Stops the children of a role, without restarts: SIGTERM, then SIGKILL after the limit (or at
  /// once at a stop signal). Returns when all are gone.
  void stop_role(const std::string& role, std::int64_t limit_ms);
  /// Tells one child to end (SIGTERM, and SIGKILL after 20 s), and forgets it then. Does not wait.
  void retire(const std::string& name);
  /// Kills every child of every role (SIGKILL); returns when all are gone.
  void kill_all();

  std::vector<ChildState> children() const;
  /// False while a child that should have been ended for its silence is still there.
  bool probes_hold() const;

 private:
  struct Child;
  explicit Supervisor(Hooks hooks);
  Result<void> spawn(Child& child);
  void reap();
  ChildExit exit_of(const Child& child, int status);
  void restart_due();
  void forget_retired();
  std::int64_t probe_children();
  void end_hung(Child& child);
  void schedule_restart(Child& child, std::int64_t lived_ms, ChildExit* exit);
  bool role_alive(const std::string& role) const;
  void signal_role(const std::string& role, int signal);

  Hooks hooks_;
  std::vector<std::unique_ptr<Child>> children_;
  int signal_fd_ = -1;
  std::int64_t oom_kills_ = 0;
  std::int64_t probed_ms_ = 0;
  bool hurry_ = false;  // a stop signal came while stopping
};

}  // namespace holdfast::cli
