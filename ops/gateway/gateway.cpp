#include "ops/gateway/gateway.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "ops/serve/child_end.h"
#include "ops/serve/http_front.h"
#include "ops/serve/log_files.h"
#include "ops/serve/program_lock.h"
#include "ops/serve/state_dir.h"
#include "ops/serve/supervisor.h"
#include "ops/terminal/output.h"
#include "shared/base/clock.h"
#include "shared/base/exit_status.h"
#include "shared/base/service_manager.h"
#include "shared/base/standard_files.h"
#include "shared/client/key_watch.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kOpenFilesWished = 16'384;  // all connections of the gateway, and its own
constexpr std::int64_t kProbeTimeoutMs = 3'000;
constexpr std::int64_t kDrainMs = 10'000;  // of running answers, where the daemon has not said its
constexpr std::int64_t kStopMs = 3'000;    // beyond it
constexpr std::int64_t kSayAgainUs = 10'000'000;
constexpr std::int64_t kJoiningMs = 20;  // between two looks
constexpr std::int64_t kJoinedMs = 200;

/// The arguments of `gateway`, checked.
struct GatewayPlan {
  std::string state;   // absolute
  std::string folder;  // of the programs
  std::string join;
  client::PeerKeyFile key;
  std::string key_path;  // absolute
  HttpFront front;
  bool verbose = false, quiet = false;
  int lock = -1;  // of the state directory
};

Result<GatewayPlan> make_plan(const Call& call) {
  GatewayPlan plan;
  plan.join = call.text("join");
  HOLDFAST_CHECKED(client::split_listener_list(plan.join, "--join"));
  HOLDFAST_TRY(plan.key,
               client::read_key_file_of(call.text("key"), client::PeerRole::kGateway, "--key"));
  std::error_code failed;
  plan.key_path = fs::absolute(call.text("key"), failed).string();
  plan.verbose = call.has("verbose");
  plan.quiet = call.quiet;
  plan.folder = program_folder();
  raise_open_files(kOpenFilesWished);
  HOLDFAST_TRY(plan.front, open_http_front(call, plan.folder));
  if (plan.front.listeners.empty()) {
    return Error{Errc::kUsage, "--http none: a gateway without HTTP has nothing to do"};
  }
  HOLDFAST_TRY(const MadeState made, prepare_state_dir(call.state_dir));
  plan.state = made.path;
  HOLDFAST_TRY(plan.lock, lock_remote_state(plan.state));
  return plan;
}

ChildSpec gateway_child(const GatewayPlan& plan) {
  ChildSpec spec;
  spec.role = spec.name = "gateway";
  spec.argv = {plan.folder + "/holdfast-gateway",
               "--state",
               plan.state,
               "--join",
               plan.join,
               "--key",
               plan.key_path};
  spec.probe_timeout_ms = kProbeTimeoutMs;
  if (!plan.verbose) spec.log_path = plan.state + "/logs/gateway.log";
  hand_down(plan.front, spec);
  return spec;
}

/// One run of `gateway`.
class RemoteGateway {
 public:
  RemoteGateway(const Call& call, GatewayPlan plan) : call_(call), plan_(std::move(plan)) {}
  int run();

 private:
  bool start();
  bool step();  // false: leave with exit_
  bool follow_daemon();
  bool on_joined();
  void on_exit(const ChildExit& exit) const;
  void on_change() const;
  void say_waiting(const client::KeyWatch::State& state);
  int leave();

  const Call& call_;
  GatewayPlan plan_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<client::KeyWatch> watch_;
  ServiceManager manager_;
  LogRotation log_rotation_{plan_.state + "/logs", {}};
  std::int64_t said_us_ = 0;
  std::int64_t drain_ms_ = kDrainMs;
  bool joined_ = false;
  bool answered_ = true;
  bool stopping_ = false;
  int exit_ = kExitDone;
};

void RemoteGateway::on_exit(const ChildExit& exit) const {
  // The supervisor finds the reason by itself.
  const bool refused = exit.signal == 0 && exit.status == exit_status::kKeyRefused;
  if (stopping_ || refused) return;
  say_started_again(exit);
}

void RemoteGateway::on_change() const {
  const auto written =
      write_json_file(plan_.state + "/run/supervisor.json",
                      supervisor_json(plan_.front.listeners.front().url, supervisor_->children()));
  if (!written) std::fprintf(stderr, "holdfast: %s\n", written.error().what.c_str());
}

bool RemoteGateway::start() {
  auto created =
      Supervisor::create({[this](const ChildExit& e) { on_exit(e); }, [this] { on_change(); }});
  if (!created) return exit_ = report_error(call_, created.error()), false;
  supervisor_ = std::move(created).value();
  auto watch = client::KeyWatch::start(plan_.join, plan_.key);
  if (!watch) return exit_ = report_error(call_, watch.error()), false;
  watch_ = std::move(watch).value();
  return true;
}

/// Starts the gateway. Clients that came before wait in the socket.
bool RemoteGateway::on_joined() {
  joined_ = true;
  if (const auto added = supervisor_->add(gateway_child(plan_)); !added) {
    return exit_ = report_error(call_, added.error()), false;
  }
  const std::string& url = plan_.front.listeners.front().url;
  std::printf("ready %s\n", url.c_str());
  std::fflush(stdout);
  manager_.ready("serving " + plan_.join + " on " + url);
  return true;
}

/// Says now and then what it waits for.
void RemoteGateway::say_waiting(const client::KeyWatch::State& state) {
  const std::int64_t now_us = system_clock().monotonic_us();
  if (plan_.quiet || state.answered || state.why.empty() || now_us - said_us_ < kSayAgainUs) return;
  said_us_ = now_us;
  std::fprintf(stderr, "holdfast: %s; trying again\n", state.why.c_str());
}

/// Acts on what the daemon answers. Returns false if the gateway must end.
bool RemoteGateway::follow_daemon() {
  using Phase = client::KeyWatch::Phase;
  const client::KeyWatch::State state = watch_->state();
  if (state.phase == Phase::kRefused) {
    exit_ = report_error(call_, Errc::kUnauthorized,
                         "gateway " + plan_.key.name + " is refused: " + state.why);
    return false;
  }
  if (state.drain_ms >= 0) drain_ms_ = state.drain_ms;
  if (state.phase == Phase::kJoined && !joined_ && !on_joined()) return false;
  if (joined_ && answered_ != state.answered && !plan_.quiet) {
    std::fprintf(stderr, "holdfast: %s %s\n", plan_.join.c_str(),
                 state.answered ? "answers again" : "does not answer; the clients wait");
  }
  if (joined_) answered_ = state.answered;
  say_waiting(state);
  return true;
}

bool RemoteGateway::step() {
  if (supervisor_->wait(joined_ ? kJoinedMs : kJoiningMs) == Supervisor::Event::kStop) return false;
  if (supervisor_->probes_hold()) manager_.alive(system_clock().monotonic_us() / 1000);
  if (!plan_.verbose) log_rotation_.step();
  return follow_daemon();
}

/// Takes no new connections, and lets running answers end within the daemon's drain limit.
int RemoteGateway::leave() {
  stopping_ = true;
  manager_.stopping();
  const bool refused = exit_ != kExitDone;
  if (!refused && !plan_.quiet) {
    std::fprintf(stderr, "holdfast: stopping (a second signal stops at once)\n");
  }
  supervisor_->stop_role("gateway", refused ? 0 : drain_ms_ + kStopMs);
  unlink((plan_.state + "/run/supervisor.json").c_str());
  return exit_;
}

int RemoteGateway::run() {
  if (!plan_.quiet) {
    std::fprintf(stderr, "holdfast: gateway %s for %s; state %s\n", plan_.key.name.c_str(),
                 plan_.join.c_str(), plan_.state.c_str());
  }
  if (!start()) return exit_;
  while (step()) {
  }
  const int exit = leave();
  // The watch may wait for a daemon that does not answer; there is nothing left to save.
  std::fflush(nullptr);
  std::_Exit(exit);
}

}  // namespace

int gateway(const Call& call) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // for everything that is started from here
  auto plan = make_plan(call);
  if (!plan) return report_error(call, plan.error());
  return RemoteGateway(call, std::move(plan).value()).run();
}

}  // namespace holdfast::cli
