#include "ops/node/node.h"

#include <netdb.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "ops/node/heartbeat.h"
#include "ops/node/node_link.h"
#include "ops/serve/child_end.h"
#include "ops/serve/log_files.h"
#include "ops/serve/program_lock.h"
#include "ops/serve/state_dir.h"
#include "ops/serve/supervisor.h"
#include "ops/terminal/output.h"
#include "shared/base/clock.h"
#include "shared/base/processors.h"
#include "shared/base/roots.h"
#include "shared/base/service_manager.h"
#include "shared/base/standard_files.h"
#include "shared/weight_cache/server.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kOpenFilesWished = 16'384;
constexpr std::int64_t kDrainMs = 10'000;  // of a worker that is told to end, as its own default
constexpr std::int64_t kStopMs = 3'000;    // beyond it
constexpr std::int64_t kFarewellMs = 2'000;
constexpr std::size_t kDomainMax = 64;  // bytes
constexpr std::int64_t kSayAgainUs = 10'000'000;

/// The arguments of `node`, checked.
struct NodePlan {
  std::string state;   // absolute
  std::string folder;  // of the programs
  client::PeerKeyFile key;
  std::string key_path;  // absolute
  std::string endpoint;  // with addresses instead of names; of a pair both, with a comma between
  std::vector<std::string> endpoints;  // one by one
  std::vector<std::string> roots;
  std::string device, kernels, engine;
  std::string domain;  // what fails together with this machine
  std::int64_t workers = 1, threads = 1;
  std::int64_t probe_timeout_ms = 3'000;
  bool verbose = false, quiet = false;
  int lock = -1;  // of the state directory
};

/// Looks up the host of "tcp://HOST:PORT": confined workers cannot. kUsage for another form, kIo if
/// there is no such host.
Result<std::string> numeric_endpoint(const std::string& join) {
  HOLDFAST_TRY(const client::ListenerUrl url, client::split_listener_url(join, "--join"));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
  if (rc != 0) return Error{Errc::kIo, "--join " + join + ": " + gai_strerror(rc)};
  char address[NI_MAXHOST];
  const int named = getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, nullptr,
                                0, NI_NUMERICHOST);
  const bool v6 = found->ai_family == AF_INET6;
  freeaddrinfo(found);
  if (named != 0) return Error{Errc::kIo, "--join " + join + ": " + gai_strerror(named)};
  const std::string numeric = v6 ? "[" + std::string(address) + "]" : std::string(address);
  return "tcp://" + numeric + ":" + url.port;
}

Result<std::int64_t> number(const Call& call, const char* flag, std::int64_t fallback,
                            std::int64_t most) {
  const std::int64_t value = call.integer(flag, fallback);
  if (value >= 1 && value <= most) return value;
  return Error{Errc::kUsage, std::string("--") + flag + " " + std::to_string(value) +
                                 ": expected a number from 1 to " + std::to_string(most)};
}

Result<std::vector<std::string>> find_roots(const Call& call) {
  std::vector<std::string> roots;
  for (const std::string& root : call.list("root")) {
    std::error_code failed;
    const std::string path = fs::canonical(root, failed).string();
    if (failed || !fs::is_directory(path, failed)) {
      return Error{Errc::kUsage, "--root " + root + ": expected a directory with models"};
    }
    roots.push_back(path);
  }
  return roots;
}

/// The root of a node that was given none: models that it fetches, and no other file of the
/// machine.
Result<std::string> own_root(const std::string& state) {
  const std::string path = state + "/models";
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return Error{Errc::kIo, "make folder " + path + ": " + failed.message()};
  return path;
}

Result<NodePlan> make_plan(const Call& call) {
  NodePlan plan;
  HOLDFAST_TRY(const auto urls, client::split_listener_list(call.text("join"), "--join"));
  for (const std::string& url : urls) {
    HOLDFAST_TRY(const std::string endpoint, numeric_endpoint(url));
    plan.endpoint += (plan.endpoint.empty() ? "" : ",") + endpoint;
    plan.endpoints.push_back(endpoint);
  }
  HOLDFAST_TRY(plan.key,
               client::read_key_file_of(call.text("key"), client::PeerRole::kNode, "--key"));
  std::error_code failed;
  plan.key_path = fs::absolute(call.text("key"), failed).string();
  plan.engine = call.text("engine", "model");
  if (plan.engine != "model" && plan.engine != "fake") {
    return Error{Errc::kUsage, "--engine " + plan.engine + ": expected model or fake"};
  }
  HOLDFAST_TRY(plan.roots, find_roots(call));
  HOLDFAST_TRY(plan.workers, number(call, "workers", 1, 1024));
  const std::int64_t share = std::max<std::int64_t>(usable_processors() / plan.workers, 1);
  HOLDFAST_TRY(plan.threads, number(call, "threads", share, 1024));
  plan.device = call.text("device");
  plan.domain = call.text("domain");
  if (plan.domain.size() > kDomainMax) {
    return Error{Errc::kUsage,
                 "--domain: expected at most " + std::to_string(kDomainMax) + " bytes"};
  }
  plan.kernels = call.text("kernels");
  plan.verbose = call.has("verbose");
  plan.quiet = call.quiet;
  plan.folder = program_folder();
  raise_open_files(kOpenFilesWished);
  HOLDFAST_TRY(const MadeState made, prepare_state_dir(call.state_dir));
  plan.state = made.path;
  HOLDFAST_TRY(plan.lock, lock_remote_state(plan.state));
  if (plan.roots.empty()) {
    HOLDFAST_TRY(const std::string root, own_root(plan.state));
    plan.roots.push_back(root);
  }
  std::string roots;
  for (const std::string& root : plan.roots) roots += (roots.empty() ? "" : ":") + root;
  HOLDFAST_CHECKED(write_roots(plan.state + "/run", roots));
  return plan;
}

std::string journal_path(const NodePlan& plan, const std::string& worker) {
  return plan.state + "/run/step-" + worker;
}

ChildSpec worker_child(const NodePlan& plan, const std::string& name) {
  ChildSpec spec;
  spec.role = "worker";
  spec.name = name;
  spec.argv = {plan.folder + "/holdfast-worker",
               "--state",
               plan.state,
               "--endpoint",
               plan.endpoint,
               "--key-file",
               plan.key_path,
               "--model-index",
               plan.state + "/run/models.index",
               "--key",
               plan.key.name + "/" + name,
               "--threads",
               std::to_string(plan.threads),
               "--engine",
               plan.engine,
               "--step-journal",
               journal_path(plan, name)};
  if (!plan.device.empty()) spec.argv.insert(spec.argv.end(), {"--device", plan.device});
  if (!plan.kernels.empty()) spec.argv.insert(spec.argv.end(), {"--kernels", plan.kernels});
  spec.probe_timeout_ms = plan.probe_timeout_ms;
  spec.hung_signal = SIGKILL;
  if (!plan.verbose) spec.log_path = plan.state + "/logs/" + name + ".log";
  return spec;
}

/// One run of `node`.
class Node {
 public:
  Node(const Call& call, NodePlan plan) : call_(call), plan_(std::move(plan)) {}
  int run();

 private:
  bool start();
  bool step();  // false: leave with exit_
  bool follow_link();
  bool on_joined();
  void on_exit(const ChildExit& exit);
  void on_change();
  void say_waiting(const NodeLink::State& state);
  int leave();

  const Call& call_;
  NodePlan plan_;
  std::unique_ptr<weight_cache::WeightCacheServer> weight_cache_server_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::unique_ptr<NodeLink> link_;
  ServiceManager manager_;
  LogRotation log_rotation_{plan_.state + "/logs", {}};
  std::int64_t said_us_ = 0;
  bool joined_ = false;
  bool answered_ = true;
  bool stopping_ = false;
  int exit_ = kExitDone;
};

void Node::on_exit(const ChildExit& exit) {
  if (stopping_) return;
  if (link_ != nullptr) {
    link_->worker_exited(worker_end_of(exit, journal_path(plan_, exit.name)));
  }
  say_started_again(exit);
}

void Node::on_change() {
  const std::vector<ChildState> children = supervisor_->children();
  std::vector<pid_t> pids;
  for (const ChildState& child : children) {
    if (child.pid > 0) pids.push_back(child.pid);
  }
  heartbeat_->set_workers(std::move(pids));
  const auto written =
      write_json_file(plan_.state + "/run/supervisor.json", supervisor_json("", children));
  if (!written) std::fprintf(stderr, "holdfast: %s\n", written.error().what.c_str());
}

bool Node::start() {
  auto created =
      Supervisor::create({[this](const ChildExit& e) { on_exit(e); }, [this] { on_change(); }});
  if (!created) return exit_ = report_error(call_, created.error()), false;
  supervisor_ = std::move(created).value();
  // Without it workers pack again after each restart; nothing else changes.
  auto cache = weight_cache::WeightCacheServer::start({plan_.state + "/run/images.sock"});
  if (cache) {
    weight_cache_server_ = std::move(cache).value();
  } else {
    std::fprintf(stderr, "holdfast: %s\n", cache.error().what.c_str());
  }
  auto heartbeat = Heartbeat::start(plan_.endpoints);
  if (!heartbeat) return exit_ = report_error(call_, heartbeat.error()), false;
  heartbeat_ = std::move(heartbeat).value();
  link_ = std::make_unique<NodeLink>(NodeLinkOptions{
      plan_.endpoint, plan_.key, plan_.state + "/run/models.index", plan_.roots, plan_.quiet,
      plan_.domain, static_cast<int>(plan_.workers * plan_.threads),
      [this](const wire::LivenessSession& session) { heartbeat_->set_session(session); }});
  return true;
}

bool Node::on_joined() {
  joined_ = true;
  for (std::int64_t i = 0; i < plan_.workers; ++i) {
    const auto added = supervisor_->add(worker_child(plan_, "worker-" + std::to_string(i)));
    if (!added) return exit_ = report_error(call_, added.error()), false;
  }
  std::printf("joined %s\n", plan_.key.name.c_str());
  std::fflush(stdout);
  manager_.ready("joined " + plan_.endpoint);
  return true;
}

/// Says now and then what it waits for.
void Node::say_waiting(const NodeLink::State& state) {
  const std::int64_t now_us = system_clock().monotonic_us();
  if (plan_.quiet || now_us - said_us_ < kSayAgainUs) return;
  said_us_ = now_us;
  if (!state.answered && !state.why.empty()) {
    std::fprintf(stderr, "holdfast: %s; trying again\n", state.why.c_str());
  } else if (!state.reading.empty()) {
    std::fprintf(stderr, "holdfast: reading %s\n", state.reading.c_str());
  }
}

/// Acts on what the link has found. Returns false if the node must end.
bool Node::follow_link() {
  const NodeLink::State state = link_->state();
  if (state.phase == NodeLink::Phase::kRefused) {
    exit_ = report_error(call_, Errc::kUnauthorized,
                         "node " + plan_.key.name + " is refused: " + state.why);
    return false;
  }
  if (state.phase == NodeLink::Phase::kJoined && !joined_ && !on_joined()) return false;
  if (joined_ && answered_ != state.answered && !plan_.quiet) {
    std::fprintf(stderr, "holdfast: %s %s\n", plan_.endpoint.c_str(),
                 state.answered ? "answers again" : "does not answer; the workers go on");
  }
  if (joined_) answered_ = state.answered;
  say_waiting(state);
  return true;
}

bool Node::step() {
  const std::int64_t wait_ms = joined_ ? 500 : 20;
  if (supervisor_->wait(wait_ms) == Supervisor::Event::kStop) return false;
  if (supervisor_->probes_hold()) manager_.alive(system_clock().monotonic_us() / 1000);
  if (!plan_.verbose) log_rotation_.step();
  return follow_link();
}

/// Drains: the daemon gives nothing new, workers finish or hand back what they have.
int Node::leave() {
  stopping_ = true;
  manager_.stopping();
  const bool refused = exit_ != kExitDone;
  if (!refused && !plan_.quiet) {
    std::fprintf(stderr, "holdfast: leaving (a second signal stops at once)\n");
  }
  link_->leave();
  supervisor_->stop_role("worker", refused ? 0 : kDrainMs + kStopMs);
  if (joined_ && !refused) link_->farewell(kFarewellMs);
  unlink((plan_.state + "/run/supervisor.json").c_str());
  return exit_;
}

int Node::run() {
  if (!plan_.quiet) {
    std::fprintf(stderr, "holdfast: node %s; state %s; %lld workers with %lld threads on %s\n",
                 plan_.key.name.c_str(), plan_.state.c_str(), static_cast<long long>(plan_.workers),
                 static_cast<long long>(plan_.threads),
                 plan_.device.empty() ? "cpu" : plan_.device.c_str());
  }
  if (!start()) return exit_;
  while (step()) {
  }
  const int exit = leave();
  // Its threads may wait for a daemon that does not answer; there is nothing left to save.
  std::fflush(nullptr);
  std::_Exit(exit);
}

}  // namespace

int node(const Call& call) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // for everything that is started from here
  auto plan = make_plan(call);
  if (!plan) return report_error(call, plan.error());
  return Node(call, std::move(plan).value()).run();
}

}  // namespace holdfast::cli
