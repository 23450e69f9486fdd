#include "ops/serve/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "shared/base/check.h"
#include "shared/base/clock.h"
#include "shared/base/crash_point.h"
#include "shared/base/probe.h"

extern char** environ;

namespace holdfast::cli {
namespace {

constexpr std::int64_t kProbesInTime = 3;   // probes in a timeout
constexpr std::int64_t kAbortMs = 1'000;    // from the first signal to SIGKILL
constexpr std::int64_t kRetireMs = 20'000;  // the same, for one that is retired

std::int64_t now_ms() {
  return system_clock().monotonic_us() / 1000;
}

/// The kernel's count of out-of-memory kills: of our control group if it has one, else of the
/// machine. Only its growth counts.
std::int64_t oom_kill_count() {
  std::string group;
  std::ifstream membership("/proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    if (line.rfind("0::", 0) == 0) group = "/sys/fs/cgroup" + line.substr(3) + "/memory.events";
  }
  for (const std::string& path : {group, std::string("/proc/vmstat")}) {
    std::ifstream file(path);
    std::string key;
    std::int64_t value = 0;
    while (file >> key >> value) {
      if (key == "oom_kill") return value;
    }
  }
  return 0;
}

/// The data that the child needs between fork and exec, made beforehand: after a fork in a process
/// with threads only async-signal-safe calls are allowed.
struct ExecPlan {
  std::vector<char*> argv;
  std::vector<std::string> env_text;
  std::vector<char*> env;
  std::vector<int> inherited_fds;
  int log_fd = -1;
  int error_fd = -1;
  pid_t parent = 0;
};

ExecPlan make_plan(const ChildSpec& spec, int probe_fd) {
  ExecPlan plan;
  for (const std::string& arg : spec.argv) plan.argv.push_back(const_cast<char*>(arg.c_str()));
  plan.argv.push_back(nullptr);
  const auto name_of = [](const std::string& text) { return text.substr(0, text.find('=')); };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced =
        std::any_of(spec.env.begin(), spec.env.end(),
                    [&](const std::string& added) { return name_of(added) == name_of(*entry); });
    if (!replaced) plan.env_text.emplace_back(*entry);
  }
  plan.env_text.insert(plan.env_text.end(), spec.env.begin(), spec.env.end());
  if (probe_fd >= 0) {
    plan.env_text.push_back(std::string(kProbeFdVariable) + "=" + std::to_string(probe_fd));
  }
  for (std::string& text : plan.env_text) plan.env.push_back(text.data());
  plan.env.push_back(nullptr);
  plan.inherited_fds = spec.inherited_fds;
  if (probe_fd >= 0) plan.inherited_fds.push_back(probe_fd);
  plan.parent = getpid();
  return plan;
}

/// Runs in the child. Async-signal-safe.
[[noreturn]] void become_child(const ExecPlan& plan) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before prctl: then nobody would ever kill us.
  if (getppid() != plan.parent) _exit(127);
  setpgid(0, 0);  // Ctrl-C in the terminal reaches the supervisor alone, which stops us in order
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_fd >= 0) dup2(null_fd, STDIN_FILENO);
  // Our stdout is for the one `ready` line; a child's output goes to its log.
  dup2(plan.log_fd >= 0 ? plan.log_fd : STDERR_FILENO, STDOUT_FILENO);
  if (plan.log_fd >= 0) dup2(plan.log_fd, STDERR_FILENO);
  constexpr unsigned kCloseRangeCloexec = 4;
  syscall(SYS_close_range, 3U, ~0U, kCloseRangeCloexec);  // older kernels: our own O_CLOEXEC does
  for (const int fd : plan.inherited_fds) fcntl(fd, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  execve(plan.argv[0], plan.argv.data(), plan.env.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(plan.error_fd, &error, sizeof error);
  _exit(127);
}

/// errno of a failed exec, 0 if it worked (the pipe closes at exec).
int read_exec_error(int fd) {
  int error = 0;
  ssize_t n = 0;
  do {
    n = read(fd, &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(sizeof error) ? error : 0;
}

}  // namespace

struct Supervisor::Child {
  ChildSpec spec;
  RestartPolicy policy;
  pid_t pid = 0;
  std::int64_t started_ms = 0;
  std::int64_t restart_at_ms = -1;  // -1: not waiting for a restart
  std::int64_t starts = 0;
  bool stopping = false;
  std::int64_t retired_ms = 0;  // 0: it is not retired
  LivenessProbe probe;
  std::int64_t aborted_ms = 0;  // 0: not told to end for its silence
};

Supervisor::Supervisor(Hooks hooks) : hooks_(std::move(hooks)), oom_kills_(oom_kill_count()) {}

Result<std::unique_ptr<Supervisor>> Supervisor::create(Hooks hooks) {
  CHECK_MSG(getpid() == static_cast<pid_t>(syscall(SYS_gettid)), "main thread only");
  std::unique_ptr<Supervisor> self(new Supervisor(std::move(hooks)));
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&set, s);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  std::signal(SIGPIPE, SIG_IGN);
  // Children inherit this: a log at the limit of a file's size must not kill its writer.
  std::signal(SIGXFSZ, SIG_IGN);
  self->signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (self->signal_fd_ < 0) {
    return Error{Errc::kIo, std::string("signalfd: ") + std::strerror(errno)};
  }
  return self;
}

Supervisor::~Supervisor() {
  kill_all();
  if (signal_fd_ >= 0) close(signal_fd_);
}

Result<void> Supervisor::add(ChildSpec spec) {
  auto child = std::make_unique<Child>();
  child->policy = RestartPolicy(spec.restart_max_ms);
  child->spec = std::move(spec);
  HOLDFAST_CHECKED(spawn(*child));
  children_.push_back(std::move(child));
  if (hooks_.on_change) hooks_.on_change();
  return {};
}

namespace {

/// Opens the log of a child; -1 if it has none.
Result<int> open_log(const std::string& path) {
  if (path.empty()) return -1;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return Error{Errc::kIo, "open log " + path + ": " + std::strerror(errno)};
  return fd;
}

}  // namespace

Result<void> Supervisor::spawn(Child& child) {
  CHECK_MSG(getpid() == static_cast<pid_t>(syscall(SYS_gettid)), "main thread only");
  int probe_fd = -1;
  if (child.spec.probe_timeout_ms > 0) {
    HOLDFAST_TRY(probe_fd, child.probe.prepare());
  }
  ExecPlan plan = make_plan(child.spec, probe_fd);
  HOLDFAST_TRY(plan.log_fd, open_log(child.spec.log_path));
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  plan.error_fd = ends[1];
  const pid_t pid = fork();
  const int fork_error = errno;
  if (pid == 0) become_child(plan);
  close(ends[1]);
  if (plan.log_fd >= 0) close(plan.log_fd);
  const int error = pid < 0 ? fork_error : read_exec_error(ends[0]);
  close(ends[0]);
  if (error != 0) {
    if (pid > 0) waitpid(pid, nullptr, 0);
    return Error{Errc::kIo, "start " + child.spec.name + ": cannot execute " + child.spec.argv[0] +
                                ": " + std::strerror(error)};
  }
  crash_point(CrashPoint::kSupervisorSpawned);
  child.pid = pid;
  child.aborted_ms = 0;
  if (probe_fd >= 0) child.probe.started(pid);
  child.started_ms = now_ms();
  child.restart_at_ms = -1;
  ++child.starts;
  return {};
}

/// Probes the children when that is due; returns milliseconds until the next time.
std::int64_t Supervisor::probe_children() {
  std::int64_t period_ms = 60'000;
  for (const auto& child : children_) {
    if (child->spec.probe_timeout_ms > 0) {
      period_ms = std::min(period_ms, child->spec.probe_timeout_ms / kProbesInTime);
    }
  }
  const std::int64_t now = now_ms();
  if (now - probed_ms_ < period_ms) return probed_ms_ + period_ms - now;
  probed_ms_ = now;
  for (const auto& child : children_) {
    if (child->pid <= 0 || child->stopping || child->spec.probe_timeout_ms == 0) continue;
    child->probe.look(now, period_ms);
    if (child->probe.silent_ms() >= child->spec.probe_timeout_ms) end_hung(*child);
  }
  return period_ms;
}

/// Ends a hung child by a signal that shows in its exit, without a core file of all its memory.
void Supervisor::end_hung(Child& child) {
  const std::int64_t now = now_ms();
  if (child.aborted_ms != 0) {
    if (now - child.aborted_ms >= kAbortMs) kill(child.pid, SIGKILL);
    return;
  }
  child.aborted_ms = now;
  std::fprintf(stderr, "holdfast: %s (pid %d) hangs: no answer for %lld ms; ending it\n",
               child.spec.name.c_str(), child.pid, static_cast<long long>(child.probe.silent_ms()));
  const rlimit none{0, 0};
  prlimit(child.pid, RLIMIT_CORE, &none, nullptr);
  kill(child.pid, child.spec.hung_signal);
  kill(child.pid, SIGCONT);  // a stopped process takes no other signal
}

bool Supervisor::probes_hold() const {
  return std::none_of(children_.begin(), children_.end(), [](const auto& child) {
    return child->pid > 0 && child->aborted_ms != 0 && now_ms() - child->aborted_ms > 5 * kAbortMs;
  });
}

Supervisor::Event Supervisor::wait(std::int64_t timeout_ms) {
  restart_due();
  timeout_ms = std::min(timeout_ms, probe_children());
  for (const auto& child : children_) {
    if (child->restart_at_ms >= 0) {
      timeout_ms = std::clamp<std::int64_t>(child->restart_at_ms - now_ms(), 0, timeout_ms);
    }
  }
  pollfd poll_fd{signal_fd_, POLLIN, 0};
  Event event = Event::kNone;
  if (poll(&poll_fd, 1, static_cast<int>(timeout_ms)) > 0) {
    signalfd_siginfo info;
    while (read(signal_fd_, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) event = Event::kStop;
    }
  }
  // Always, not only at SIGCHLD: signals of one kind merge, and reaping is cheap.
  reap();
  restart_due();
  return event;
}

void Supervisor::reap() {
  bool changed = false;
  for (const auto& child : children_) {
    int status = 0;
    if (child->pid <= 0 || waitpid(child->pid, &status, WNOHANG) != child->pid) continue;
    crash_point(CrashPoint::kSupervisorReaped);
    ChildExit exit = exit_of(*child, status);
    child->pid = 0;
    child->probe.ended();
    changed = true;
    if (!child->stopping) schedule_restart(*child, exit.lived_ms, &exit);
    if (hooks_.on_exit) hooks_.on_exit(exit);
  }
  forget_retired();
  if (changed && hooks_.on_change) hooks_.on_change();
}

void Supervisor::retire(const std::string& name) {
  for (const auto& child : children_) {
    if (child->spec.name != name || child->retired_ms != 0) continue;
    child->stopping = true;
    child->restart_at_ms = -1;
    child->retired_ms = now_ms();
    if (child->pid > 0) kill(child->pid, SIGTERM);
  }
}

/// Forgets retired children that have ended, and kills those that do not end.
void Supervisor::forget_retired() {
  std::erase_if(children_, [](const auto& c) { return c->retired_ms != 0 && c->pid == 0; });
  for (const auto& child : children_) {
    if (child->retired_ms != 0 && now_ms() - child->retired_ms > kRetireMs) {
      kill(child->pid, SIGKILL);
    }
  }
}

ChildExit Supervisor::exit_of(const Child& child, int status) {
  ChildExit exit;
  exit.role = child.spec.role;
  exit.name = child.spec.name;
  exit.pid = child.pid;
  exit.lived_ms = now_ms() - child.started_ms;
  exit.retired = child.retired_ms != 0;
  if (WIFSIGNALED(status)) exit.signal = WTERMSIG(status);
  if (WIFEXITED(status)) exit.status = WEXITSTATUS(status);
  const std::int64_t oom_kills = exit.signal == SIGKILL ? oom_kill_count() : oom_kills_;
  exit.oom = oom_kills > oom_kills_;
  oom_kills_ = oom_kills;
  return exit;
}

void Supervisor::schedule_restart(Child& child, std::int64_t lived_ms, ChildExit* exit) {
  const std::int64_t delay_ms = child.policy.on_death(lived_ms);
  child.restart_at_ms = now_ms() + delay_ms;
  if (exit != nullptr) exit->restart_in_ms = delay_ms;
}

void Supervisor::restart_due() {
  bool changed = false;
  for (const auto& child : children_) {
    if (child->stopping || child->restart_at_ms < 0 || child->restart_at_ms > now_ms()) continue;
    if (const auto started = spawn(*child); !started) {
      // Even a program that cannot be executed any more (an upgrade in progress) is tried again.
      schedule_restart(*child, 0, nullptr);
      continue;
    }
    changed = true;
  }
  if (changed && hooks_.on_change) hooks_.on_change();
}

bool Supervisor::role_alive(const std::string& role) const {
  return std::any_of(children_.begin(), children_.end(), [&](const auto& child) {
    return child->pid > 0 && (role.empty() || child->spec.role == role);
  });
}

void Supervisor::signal_role(const std::string& role, int signal) {
  for (const auto& child : children_) {
    if (!role.empty() && child->spec.role != role) continue;
    child->stopping = true;
    child->restart_at_ms = -1;
    if (child->pid > 0) kill(child->pid, signal);
  }
}

void Supervisor::stop_role(const std::string& role, std::int64_t limit_ms) {
  signal_role(role, hurry_ ? SIGKILL : SIGTERM);
  const std::int64_t until = now_ms() + limit_ms;
  while (role_alive(role) && !hurry_ && now_ms() < until) {
    if (wait(std::min<std::int64_t>(until - now_ms(), 200)) == Event::kStop) hurry_ = true;
  }
  if (!role_alive(role)) return;
  signal_role(role, SIGKILL);
  while (role_alive(role)) wait(50);
}

void Supervisor::kill_all() {
  signal_role("", SIGKILL);
  while (role_alive("")) wait(50);
}

std::vector<ChildState> Supervisor::children() const {
  std::vector<ChildState> out;
  for (const auto& child : children_) {
    out.push_back({child->spec.role, child->spec.name, child->pid,
                   std::max<std::int64_t>(child->starts - 1, 0)});
  }
  return out;
}

}  // namespace holdfast::cli
