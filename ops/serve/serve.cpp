#include "ops/serve/serve.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>

#include "ops/serve/bound_workers.h"
#include "ops/serve/child_end.h"
#include "ops/serve/drop_user.h"
#include "ops/serve/http_front.h"
#include "ops/serve/log_files.h"
#include "ops/serve/model_path.h"
#include "ops/serve/other_stores.h"
#include "ops/serve/serve_control.h"
#include "ops/serve/state_dir.h"
#include "ops/serve/supervisor.h"
#include "ops/terminal/output.h"
#include "shared/base/clock.h"
#include "shared/base/crash_point.h"
#include "shared/base/exit_status.h"
#include "shared/base/listen_note.h"
#include "shared/base/local_socket.h"
#include "shared/base/processors.h"
#include "shared/base/progress.h"
#include "shared/base/service_manager.h"
#include "shared/base/standard_files.h"
#include "shared/base/step_journal.h"
#include "shared/base/url.h"
#include "shared/client/peer_key.h"
#include "shared/weight_cache/server.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kStopMs = 3'000;  // beyond the limit of running work
constexpr std::int64_t kWorkerStopMs = 2'000;
constexpr int kStartsMax = 3;  // of a daemon that ends by itself, each soon after its start
constexpr std::int64_t kOpenFilesWished = 16'384;  // all connections of the gateway, and its own
constexpr std::int64_t kOpenFilesLeast = 128;
constexpr std::int64_t kOpenFilesShort = 8'192 + 128;  // less means fewer connections
constexpr std::int64_t kSoonMs = 2'000;

struct Plan {
  std::string state;
  MadeState made;
  std::string folder;  // where the programs are
  HttpFront front;
  std::vector<ServedModel> models;
  std::string device, kernels, engine;
  std::int64_t workers = 1, threads = 1, ingress = 1;
  std::int64_t step_watchdog_ms = 10'000;
  std::int64_t restart_max_ms = RestartPolicy::kMaxMs;
  LogBounds logs;
  std::int64_t probe_timeout_ms = 3'000;
  bool verbose = false;
  bool quiet = false;

  std::string service_url() const {
    return front.listeners.empty() ? "ipc://" + state + "/run/clients.sock" : http_url();
  }
  /// The first URL of HTTP; empty without HTTP.
  std::string http_url() const {
    return front.listeners.empty() ? "" : front.listeners.front().url;
  }
};

Result<ServedModel> parse_model(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    const bool file = equals == std::string::npos && !text.empty();
    return Error{Errc::kUsage, "--model " + text + ": expected NAME=PATH" +
                                   (file ? ", as in --model " + model_name_of(text) + "=" + text
                                         : std::string())};
  }
  std::string path = text.substr(equals + 1);
  std::error_code failed;
  if (!names_other_store(path)) path = fs::absolute(path, failed).string();
  return ServedModel{text.substr(0, equals), std::move(path), {}, 0};
}

/// Takes over what a model of Ollama's store has beside its weights. Without that it is served too.
void take_profile(ServedModel& model) {
  auto taken = find_stored_profile(model.path);
  if (!taken) return;
  model.profile = std::move(taken->profile);
  model.context = taken->context;
}

/// Replaces the paths of --model by those that are meant. Fails if none of them can be loaded: a
/// start that cannot succeed begins nothing. One of several may be missing, the others are served.
Result<void> find_models(std::vector<ServedModel>& models) {
  std::optional<Error> first;
  std::size_t missing = 0;
  for (ServedModel& model : models) {
    auto path = find_model(model.path);
    if (path) {
      take_profile(model);
      model.path = std::move(path).value();
      continue;
    }
    ++missing;
    if (!first)
      first = Error{path.error().code,
                    "--model " + model.name + "=" + model.path + ": " + path.error().what};
  }
  if (first && missing == models.size()) return *first;
  return {};
}

Result<std::int64_t> at_least(const Call& call, const char* flag, std::int64_t fallback,
                              std::int64_t most = 1024) {
  const std::int64_t value = call.integer(flag, fallback);
  if (value >= 1 && value <= most) return value;
  return Error{Errc::kUsage, std::string("--") + flag + " " + std::to_string(value) +
                                 ": expected a number from 1 to " + std::to_string(most)};
}

/// Checks the limit of open files: every program of a start opens some before it does anything.
Result<void> check_open_files() {
  const std::int64_t files = raise_open_files(kOpenFilesWished);
  if (files >= kOpenFilesLeast) return {};
  return Error{Errc::kUsage, "this process may open " + std::to_string(files) +
                                 " files at once, expected at least " +
                                 std::to_string(kOpenFilesLeast) + ": ulimit -n " +
                                 std::to_string(kOpenFilesWished) +
                                 ", or LimitNOFILE= in the service"};
}

/// A number from 0 to `most`. `zero`: what 0 means, for the error.
Result<std::int64_t> at_most(const Call& call, const char* flag, std::int64_t fallback,
                             std::int64_t most, const char* zero = "") {
  const std::int64_t value = call.integer(flag, fallback);
  if (value >= 0 && value <= most) return value;
  return Error{Errc::kUsage, std::string("--") + flag + " " + std::to_string(value) +
                                 ": expected 0" + zero + " to " + std::to_string(most)};
}

Result<Plan> make_plan(const Call& call) {
  Plan plan;
  for (const std::string& text : call.list("model")) {
    HOLDFAST_TRY(const ServedModel model, parse_model(text));
    plan.models.push_back(model);
  }
  HOLDFAST_CHECKED(find_models(plan.models));
  plan.engine = call.text("engine", "model");
  if (plan.engine != "model" && plan.engine != "fake") {
    return Error{Errc::kUsage, "--engine " + plan.engine + ": expected model or fake"};
  }
  HOLDFAST_TRY(plan.workers, at_most(call, "workers", 1, 1024, " (nodes have them)"));
  if (call.has("listen")) {
    HOLDFAST_CHECKED(client::split_listener_url(call.text("listen"), "--listen"));
  }
  const std::int64_t cpus = usable_processors();
  HOLDFAST_TRY(plan.threads,
               at_least(call, "threads",
                        std::max<std::int64_t>(cpus / std::max<std::int64_t>(plan.workers, 1), 1)));
  HOLDFAST_TRY(plan.ingress, at_least(call, "ingress", 2));
  HOLDFAST_TRY(plan.step_watchdog_ms,
               at_least(call, "step-watchdog-ms", plan.step_watchdog_ms, 86'400'000));
  HOLDFAST_TRY(plan.restart_max_ms, at_most(call, "restart-max-ms", plan.restart_max_ms, 60'000));
  HOLDFAST_TRY(const std::int64_t log_mib,
               at_least(call, "log-mib", plan.logs.bytes >> 20, 1 << 20));
  plan.logs.bytes = log_mib << 20;
  HOLDFAST_TRY(plan.logs.files, at_most(call, "log-files", plan.logs.files, 100));
  HOLDFAST_TRY(plan.probe_timeout_ms,
               at_most(call, "probe-timeout-ms", plan.probe_timeout_ms, 3'600'000, " (off)"));
  plan.device = call.text("device");
  plan.kernels = call.text("kernels");
  plan.verbose = call.has("verbose");
  plan.quiet = call.quiet;
  plan.folder = program_folder();
  HOLDFAST_CHECKED(check_open_files());
  HOLDFAST_TRY(plan.front, open_http_front(call, plan.folder));
  // Last: a start that is refused leaves no directory behind.
  HOLDFAST_TRY(plan.made, prepare_state_dir(call.state_dir));
  plan.state = plan.made.path;
  return plan;
}

ChildSpec make_child(const Plan& plan, const std::string& role, const std::string& name,
                     const std::string& program, const std::vector<std::string>& flags) {
  ChildSpec spec;
  spec.role = role;
  spec.name = name;
  spec.argv = {plan.folder + "/" + program, "--state", plan.state};
  spec.argv.insert(spec.argv.end(), flags.begin(), flags.end());
  spec.restart_max_ms = plan.restart_max_ms;
  spec.probe_timeout_ms = plan.probe_timeout_ms;
  // A stuck step has a watchdog of its own; for any other silence no request is to blame.
  if (role == "worker") spec.hung_signal = SIGKILL;
  if (!plan.verbose) spec.log_path = plan.state + "/logs/" + name + ".log";
  return spec;
}

std::string journal_path(const Plan& plan, const std::string& worker) {
  return plan.state + "/run/step-" + worker;
}

ChildSpec worker_child(const Plan& plan, const std::string& name) {
  std::vector<std::string> flags = {"--key",
                                    name,
                                    "--threads",
                                    std::to_string(plan.threads),
                                    "--engine",
                                    plan.engine,
                                    "--step-journal",
                                    journal_path(plan, name),
                                    "--step-watchdog-ms",
                                    std::to_string(plan.step_watchdog_ms)};
  if (!plan.device.empty()) flags.insert(flags.end(), {"--device", plan.device});
  if (!plan.kernels.empty()) flags.insert(flags.end(), {"--kernels", plan.kernels});
  return make_child(plan, "worker", name, "holdfast-worker", flags);
}

/// A worker for requests that began on other kernels. Of a flag that comes twice the last one
/// counts.
ChildSpec bound_child(const Plan& plan, const std::string& name, const std::string& program,
                      const std::vector<std::string>& more) {
  ChildSpec spec = worker_child(plan, name);
  spec.argv.front() = program;
  spec.argv.insert(spec.argv.end(), more.begin(), more.end());
  return spec;
}

std::vector<std::string> daemon_flags(const Call& call) {
  std::vector<std::string> flags;
  for (const std::string& assignment : call.list("config")) {
    flags.insert(flags.end(), {"--config", assignment});
  }
  if (call.has("config-file"))
    flags.insert(flags.end(), {"--config-file", call.text("config-file")});
  for (const char* name : {"listen", "advertise", "record", "standby-of", "standby-key"}) {
    if (call.has(name)) flags.insert(flags.end(), {std::string("--") + name, call.text(name)});
  }
  return flags;
}

/// Starts the daemon's peers, once our daemon is up: before that another daemon might hold the
/// sockets, and they would serve that one.
Result<void> start_peers(Supervisor& supervisor, const Plan& plan) {
  for (std::int64_t i = 0; i < plan.ingress; ++i) {
    const std::string name = "ingress-" + std::to_string(i);
    HOLDFAST_CHECKED(supervisor.add(make_child(plan, "ingress", name, "holdfast-ingress", {})));
  }
  for (std::int64_t i = 0; i < plan.workers; ++i) {
    HOLDFAST_CHECKED(supervisor.add(worker_child(plan, "worker-" + std::to_string(i))));
  }
  // No probes: its calls wait while the daemon is down, and a download ends by limits of its own.
  ChildSpec fetcher = make_child(plan, "fetcher", "fetcher", "holdfast-fetcher", {});
  fetcher.probe_timeout_ms = 0;
  HOLDFAST_CHECKED(supervisor.add(std::move(fetcher)));
  if (plan.front.listeners.empty()) return {};
  ChildSpec gateway = make_child(plan, "gateway", "gateway", "holdfast-gateway", {});
  hand_down(plan.front, gateway);
  return supervisor.add(std::move(gateway));
}

/// One run of `serve`.
class Serve {
 public:
  Serve(const Call& call, Plan plan)
      : call_(call),
        plan_(std::move(plan)),
        bound_workers_([this](const auto& name, const auto& program, const auto& flags) {
          return bound_child(plan_, name, program, flags);
        }) {}
  int run();

 private:
  bool start();
  bool step();  // false: leave with exit_
  bool on_phase(const ServeControl::Report& report);
  bool on_daemon_up(const ServeControl::Report& report);
  bool say_errors(const ServeControl::Report& report);
  void on_exit(const ChildExit& exit);
  void tell_of_worker(const ChildExit& exit);
  void give_up(const ChildExit& exit);
  bool starts_in_vain(const ChildExit& exit);
  bool is_final(const ChildExit& exit);
  void say_keyless() const;
  void on_change();
  void tell_standby();
  void fail(Errc code, const std::string& what) {
    exit_ = report_error(call_, code, what), failed_ = true;
  }
  int leave();

  const Call& call_;
  Plan plan_;
  std::unique_ptr<weight_cache::WeightCacheServer>
      weight_cache_server_;  // packed weights that outlive workers
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<ServeControl> control_;
  BoundWorkers bound_workers_;
  ServiceManager manager_;
  ServeControl::Phase phase_ = ServeControl::Phase::kDaemonStarting;
  bool standby_told_ = false;
  std::int64_t log_offset_ = 0;
  LogRotation log_rotation_{plan_.state + "/logs", plan_.logs};
  int vain_starts_ = 0;  // of the daemon, in a row
  bool stopping_ = false;
  bool failed_ = false;
  bool refused_ = false;  // by the daemon, before it served
  int exit_ = kExitDone;
};

/// True for the third death in a row of a daemon that found its database damaged, or a bug, as soon
/// as it had read it: the next start would find the same. A kill from outside does not count.
bool Serve::starts_in_vain(const ChildExit& exit) {
  constexpr int kAborts[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  if (exit.role != "daemon") return false;
  const bool aborted =
      std::find(std::begin(kAborts), std::end(kAborts), exit.signal) != std::end(kAborts);
  const bool refused = exit.signal == 0 && exit.status == exit_status::kDamaged;
  const bool vain = exit.lived_ms < kSoonMs && (aborted || refused);
  vain_starts_ = vain ? vain_starts_ + 1 : 0;
  return vain_starts_ >= kStartsMax;
}

/// True for the death of a daemon that no other start would help: it says so by its status before
/// it has served, or it keeps dying.
bool Serve::is_final(const ChildExit& exit) {
  if (starts_in_vain(exit)) return true;
  const bool final_status = exit.signal == 0 && exit_status::is_final(exit.status);
  const bool starting = phase_ == ServeControl::Phase::kDaemonStarting && !standby_told_;
  return exit.role == "daemon" && starting && final_status;
}

void Serve::on_exit(const ChildExit& exit) {
  if (stopping_) return;
  if (exit.role == "worker" && control_ != nullptr) tell_of_worker(exit);
  if (is_final(exit)) return give_up(exit);
  if (exit.retired) return;
  say_started_again(exit);
}

/// Tells the daemon what a worker was doing when it ended.
void Serve::tell_of_worker(const ChildExit& exit) {
  control_->worker_exited(worker_end_of(exit, journal_path(plan_, exit.name)));
}

void Serve::give_up(const ChildExit& exit) {
  const std::string log = plan_.state + "/logs/daemon.log";
  std::string reason = plan_.verbose ? "see above" : last_log_line(log, log_offset_);
  if (reason.empty() || exit.signal != 0) reason = how_it_ended(exit) + "; see " + log;
  fail(Errc::kInternal, "the daemon cannot start: " + reason);
  // Where another daemon owns the directory, or its database is damaged, nothing is ours to take.
  const bool owned = exit.status == exit_status::kOwned || exit.status == exit_status::kDamaged;
  const bool starting = phase_ == ServeControl::Phase::kDaemonStarting;
  refused_ = starting && exit.signal == 0 && !owned;
}

void Serve::on_change() {
  for (const ChildState& child : supervisor_->children()) {
    if (child.role == "daemon" && child.pid > 0 && control_) control_->set_daemon_pid(child.pid);
  }
  // Until our daemon is up the file may be another supervisor's.
  if (phase_ == ServeControl::Phase::kDaemonStarting && !standby_told_) return;
  const std::string path = plan_.state + "/run/supervisor.json";
  const auto written =
      write_json_file(path, supervisor_json(plan_.http_url(), supervisor_->children()));
  if (!written) std::fprintf(stderr, "holdfast: %s\n", written.error().what.c_str());
  crash_point(CrashPoint::kSupervisorFileWritten);
}

bool Serve::start() {
  auto created =
      Supervisor::create({[this](const ChildExit& e) { on_exit(e); }, [this] { on_change(); }});
  if (!created) return fail(created.error().code, created.error().what), false;
  supervisor_ = std::move(created).value();
  crash_point(CrashPoint::kSupervisorStartBegin);
  std::error_code absent;
  const auto size = fs::file_size(plan_.state + "/logs/daemon.log", absent);
  log_offset_ = absent ? 0 : static_cast<std::int64_t>(size);
  if (const auto up =
          supervisor_->add(make_child(plan_, "daemon", "daemon", "holdfastd", daemon_flags(call_)));
      !up) {
    return fail(up.error().code, up.error().what), false;
  }
  ServeOptions options;
  options.state_dir = plan_.state;
  options.models = plan_.models;
  options.context = call_.integer("context", 0);
  options.kv_type = call_.text("kv-type");
  options.engine_options = call_.text("engine-options");
  options.http_url = plan_.http_url();
  options.progress = isatty(STDERR_FILENO) == 1 && !plan_.quiet;
  options.programs = plan_.folder;
  control_ = std::make_unique<ServeControl>(std::move(options));
  on_change();
  return true;
}

/// Warns of an address that is open to other machines while no key exists: they are refused.
void Serve::say_keyless() const {
  const auto open = std::ranges::find_if(
      plan_.front.listeners, [](const Listener& one) { return !is_loopback_url(one.url); });
  if (open == plan_.front.listeners.end()) return;
  std::fprintf(stderr,
               "holdfast: warning: %s is open to other machines, and no key exists: every request "
               "is refused; make one with: holdfast --state %s keys create NAME\n",
               open->url.c_str(), plan_.state.c_str());
}

bool Serve::on_phase(const ServeControl::Report& report) {
  using Phase = ServeControl::Phase;
  const bool daemon_came_up = phase_ == Phase::kDaemonStarting;
  phase_ = report.phase;
  if (daemon_came_up && !on_daemon_up(report)) return false;
  if (phase_ == Phase::kReady) {
    crash_point(CrashPoint::kSupervisorReady);
    std::printf("ready %s\n", plan_.service_url().c_str());
    std::fflush(stdout);
  }
  if (phase_ == Phase::kReady || phase_ == Phase::kDegraded) {
    manager_.ready("serving on " + plan_.service_url());
  }
  if (phase_ == Phase::kFailed || phase_ == Phase::kDegraded) return say_errors(report);
  return true;
}

/// Starts what needs the daemon. Returns false after an error.
bool Serve::on_daemon_up(const ServeControl::Report& report) {
  crash_point(CrashPoint::kSupervisorDaemonUp);
  if (report.keyless) say_keyless();
  const std::string listener = read_listen_note(plan_.state + "/run");
  if (!listener.empty() && !plan_.quiet) {
    std::fprintf(stderr, "holdfast: nodes and clients elsewhere: %s\n", listener.c_str());
  }
  // Without it workers pack again after each restart; nothing else changes.
  auto weight_cache_server =
      weight_cache::WeightCacheServer::start({plan_.state + "/run/images.sock"});
  if (weight_cache_server) {
    weight_cache_server_ = std::move(weight_cache_server).value();
  } else {
    std::fprintf(stderr, "holdfast: %s\n", weight_cache_server.error().what.c_str());
  }
  if (const auto up = start_peers(*supervisor_, plan_); !up) {
    return fail(up.error().code, up.error().what), false;
  }
  return true;
}

/// Says which models failed. Returns false if none is served.
bool Serve::say_errors(const ServeControl::Report& report) {
  for (std::size_t i = 0; i < report.errors.size(); ++i) {
    const bool last = phase_ == ServeControl::Phase::kFailed && i + 1 == report.errors.size();
    if (last) return fail(Errc::kInternal, report.errors[i]), false;
    std::fprintf(stderr, "holdfast: %s\n", report.errors[i].c_str());
  }
  std::fprintf(stderr, "holdfast: serving the other models on %s\n", plan_.service_url().c_str());
  return true;
}

/// Says once that the daemon waits as a standby; it is up as much as it can be.
void Serve::tell_standby() {
  if (standby_told_ || phase_ != ServeControl::Phase::kDaemonStarting) return;
  const int fd = connect_locally(plan_.state + "/run/standby.sock", SOCK_STREAM);
  if (fd < 0) return;
  close(fd);
  standby_told_ = true;
  on_change();
  manager_.ready("standby");
  if (!plan_.quiet) {
    std::fprintf(stderr, "holdfast: standby; serves when it takes over (`holdfast ha status`)\n");
  }
}

bool Serve::step() {
  // We look often only until everything is up; signals and deaths wake us at once.
  const bool settled = phase_ != ServeControl::Phase::kDaemonStarting &&
                       phase_ != ServeControl::Phase::kModelsLoading;
  std::int64_t wait_ms = settled ? 1'000 : standby_told_ ? 50 : 10;
  if (manager_.watchdog_ms() > 0) wait_ms = std::min(wait_ms, manager_.watchdog_ms() / 4 + 1);
  if (supervisor_->wait(wait_ms) == Supervisor::Event::kStop) return false;
  if (supervisor_->probes_hold()) manager_.alive(system_clock().monotonic_us() / 1000);
  if (failed_) return false;
  if (!plan_.verbose) log_rotation_.step();
  tell_standby();
  const auto report = control_->report();
  if (phase_ != ServeControl::Phase::kDaemonStarting) {
    bound_workers_.follow(*supervisor_, report.bound);
  }
  return report.phase == phase_ || on_phase(report);
}

/// Stops the gateway first: no new work comes, and what its clients wait for is finished within the
/// drain limit. Then the daemon with what is left, then the processes that worked for it.
int Serve::leave() {
  stopping_ = true;
  manager_.stopping();
  if (!failed_ && !plan_.quiet)
    std::fprintf(stderr, "holdfast: stopping (a second signal stops at once)\n");
  const std::int64_t drain_ms = failed_ ? 0 : control_->drain_limit_ms();
  supervisor_->stop_role("gateway", drain_ms + kStopMs);
  crash_point(CrashPoint::kSupervisorStopGateway);
  supervisor_->stop_role("fetcher", kWorkerStopMs);
  supervisor_->stop_role("daemon", drain_ms + kStopMs);
  crash_point(CrashPoint::kSupervisorStopDaemon);
  supervisor_->stop_role("worker", kWorkerStopMs);
  supervisor_->stop_role("ingress", kWorkerStopMs);
  if (phase_ != ServeControl::Phase::kDaemonStarting) {
    unlink((plan_.state + "/run/supervisor.json").c_str());
  }
  if (refused_) take_back(plan_.made);
  return exit_;
}

void announce(const Plan& plan) {
  const std::int64_t files = raise_open_files(kOpenFilesWished);
  if (files < kOpenFilesShort && !plan.front.listeners.empty()) {
    std::fprintf(stderr,
                 "holdfast: warning: a process may open %lld files at once, so HTTP takes fewer "
                 "connections than it could; expected %lld: ulimit -n %lld\n",
                 static_cast<long long>(files), static_cast<long long>(kOpenFilesShort),
                 static_cast<long long>(kOpenFilesWished));
  }
  std::fprintf(stderr, "holdfast: state %s; %lld worker%s with %lld thread%s on %s (%d cores)\n",
               plan.state.c_str(), static_cast<long long>(plan.workers),
               plan.workers == 1 ? "" : "s", static_cast<long long>(plan.threads),
               plan.threads == 1 ? "" : "s", plan.device.empty() ? "cpu" : plan.device.c_str(),
               usable_processors());
}

int Serve::run() {
  if (!plan_.quiet) announce(plan_);
  if (start()) {
    while (step()) {
    }
  }
  if (supervisor_ == nullptr) return exit_;
  const int exit = leave();
  // The control threads may be blocked on a daemon that is gone now; there is nothing left to save.
  std::fflush(nullptr);
  std::_Exit(exit);
}

}  // namespace

int serve(const Call& call) {
  arm_crash_points("supervisor");
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // for everything that is started from here
  if (call.has("user")) {
    if (const auto dropped = become_user(call.text("user")); !dropped) {
      return report_error(call, dropped.error());
    }
  }
  auto plan = make_plan(call);
  if (!plan) {
    // A taken port is a failed start, not a refusal of the daemon.
    const Error& error = plan.error();
    return report_error(call, error.code == Errc::kUsage ? Errc::kUsage : Errc::kIo, error.what);
  }
  if (const std::string warning = root_warning(); !warning.empty() && !call.quiet) {
    std::fprintf(stderr, "holdfast: warning: %s\n", warning.c_str());
  }
  return Serve(call, std::move(plan).value()).run();
}

}  // namespace holdfast::cli
