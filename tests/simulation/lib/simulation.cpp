#include "tests/simulation/lib/simulation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/simulation/lib/client_node.h"
#include "tests/simulation/lib/control_plane.h"
#include "tests/simulation/lib/helper_node.h"
#include "tests/simulation/lib/sim_requests.h"
#include "tests/simulation/lib/supervisor_node.h"
#include "tests/simulation/lib/worker_node.h"

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kChaosEveryUs = 20 * kMs;
constexpr std::int64_t kLivenessUs = 60 * kSecond;

class Simulation {
 public:
  Simulation(std::uint64_t seed, bool verbose);
  Report run();

 private:
  void chaos();
  void disturb_network();
  void disturb_processes();
  void disturb_workers();
  void disturb_nodes();
  void drain_a_node();
  void resume_node(const std::string& name);
  void help_nodes();
  bool nodes_done() const;
  void operate();
  void make_alias();
  void change_alias();
  void end_canaries();
  void heal();
  void help();
  bool done() const;
  bool now_and_then(double per_second) {
    return world_.accident(per_second * static_cast<double>(kChaosEveryUs) / kSecond);
  }
  WorkerNode& any_worker() { return *workers_[world_.random.below(workers_.size())]; }
  const std::string& any_id() {
    return requests_[world_.random.below(requests_.size())].submit.request_id;
  }

  World world_;
  std::vector<SimRequest> requests_;
  Network network_;
  Auditor auditor_;
  ControlPlane daemon_;
  HelperNode helper_;
  std::vector<std::unique_ptr<SupervisorNode>> nodes_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::unique_ptr<ClientNode>> clients_;
  std::string stays_drained_;  // a node, at the end
  bool paused_ = false, drained_ = false;
  bool no_canary_ = false;       // when last looked at
  bool canaries_ended_ = false;  // a while ago
};

/// A database with the models registered, as most seeds begin.
SimDisk::Image make_image(const Swarm& swarm) {
  World world(0, swarm, false);
  world.healed = true;
  SimDisk disk(1);
  Network network(world);
  const std::vector<SimRequest> none;
  Auditor auditor(world, none);
  DaemonNode daemon(world, disk, network, auditor);
  HelperNode helper(world, network);
  daemon.start();
  helper.start();
  while (!daemon.up() || daemon.machine().registry().models().size() < 2) CHECK(world.run_one());
  const std::int64_t until_us = world.now_us + kSecond;
  while (world.now_us < until_us && world.run_one()) continue;
  daemon.stop_and_audit();
  CHECK(world.failure().empty());
  return disk.image();
}

const SimDisk::Image& registered_image(const Swarm& swarm) {
  static std::map<std::pair<int, int>, SimDisk::Image> images;
  const auto [it, fresh] = images.try_emplace({swarm.slots, swarm.prompt_pages});
  if (fresh) {
    Swarm plain = swarm;
    plain.pair = false;
    plain.nodes = 0;
    it->second = make_image(plain);
  }
  return it->second;
}

Simulation::Simulation(std::uint64_t seed, bool verbose)
    : world_(seed, draw_swarm(seed), verbose),
      requests_(draw_requests(world_)),
      network_(world_),
      auditor_(world_, requests_),
      daemon_(world_, network_, auditor_, seed ^ 0x5151),
      helper_(world_, network_) {
  if (!world_.swarm.fresh_disk) daemon_.disk().load_image(registered_image(world_.swarm));
  for (int i = 0; i < world_.swarm.nodes; ++i) {
    nodes_.push_back(std::make_unique<SupervisorNode>(world_, network_, daemon_, i));
  }
  daemon_.set_on_datagram([this](int node, const std::string& datagram) {
    nodes_.at(static_cast<std::size_t>(node))->received(datagram);
  });
  for (std::size_t i = 0; i < static_cast<std::size_t>(world_.swarm.workers); ++i) {
    SupervisorNode* node = nodes_.empty() ? nullptr : nodes_[i % nodes_.size()].get();
    workers_.push_back(std::make_unique<WorkerNode>(world_, network_, daemon_, auditor_,
                                                    static_cast<int>(i), node));
    if (node != nullptr) node->add(workers_.back().get());
  }
  for (int i = 0; i < world_.swarm.clients; ++i) {
    clients_.push_back(std::make_unique<ClientNode>(world_, network_, auditor_, requests_));
  }
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    clients_[i % clients_.size()]->add(static_cast<int>(i));
  }
  daemon_.set_on_power_failure([this] {
    if (!world_.swarm.local_workers) return;
    for (auto& worker : workers_) worker->die(9, false);
  });
}

// ---- accidents

void Simulation::chaos() {
  if (world_.healed) return;
  disturb_network();
  disturb_processes();
  daemon_.disturb(kChaosEveryUs);
  disturb_workers();
  if (!nodes_.empty()) disturb_nodes();
  operate();
  world_.after(kChaosEveryUs, [this] { chaos(); });
}

void Simulation::disturb_network() {
  const Swarm& s = world_.swarm;
  SimRandom& r = world_.random;
  if (now_and_then(s.connection_drop)) {
    world_.hit(Fault::kConnectionDropped);
    network_.cut(network_.any(r.next()), r.between(0, 200) * kMs, r.between(0, 100) * kMs);
  }
  if (now_and_then(s.clog)) {
    world_.hit(Fault::kClogged);
    network_.clog(network_.any(r.next()), r.between(1, 2000) * kMs);
  }
  if (now_and_then(s.partition)) {
    world_.hit(Fault::kPartition);
    any_worker().isolate(r.between(50, 4000) * kMs);
  }
  if (now_and_then(s.client_vanish)) {
    world_.hit(Fault::kClientVanished);
    clients_[r.below(clients_.size())]->vanish(r.between(10, 5000) * kMs);
  }
}

void Simulation::disturb_processes() {
  const Swarm& s = world_.swarm;
  SimRandom& r = world_.random;
  if (now_and_then(s.daemon_kill)) daemon_.kill();
  if (now_and_then(s.power_failure)) daemon_.power_failure();
  if (now_and_then(s.helper_death)) {
    world_.hit(Fault::kHelperDied);
    helper_.die();
  }
  if (now_and_then(s.clock_step)) {
    const bool forward = r.below(2) == 0;
    world_.hit(forward ? Fault::kClockForward : Fault::kClockBackward);
    world_.step_wall_clock(r.between(1, s.clock_step_ms) * (forward ? 1 : -1));
  }
  if (now_and_then(s.disk_full)) {
    daemon_.set_disk_full(true);
    world_.after(r.between(10, 2000) * kMs, [this] { daemon_.set_disk_full(false); });
  }
  if (now_and_then(s.storage_low)) {
    world_.hit(Fault::kStorageLow);
    daemon_.set_storage_low(true);
    world_.after(r.between(10, 2000) * kMs, [this] { daemon_.set_storage_low(false); });
  }
  if (now_and_then(s.bit_rot)) daemon_.damage_at_next_death();
}

void Simulation::disturb_workers() {
  const Swarm& s = world_.swarm;
  const auto strike = [&](double rate, Fault fault, int signal, bool oom) {
    if (!now_and_then(rate)) return;
    WorkerNode& worker = any_worker();
    if (!worker.alive()) return;
    world_.hit(fault);
    worker.die(signal, oom);
  };
  strike(s.worker_kill, Fault::kWorkerKilled, 9, false);
  strike(s.worker_crash, Fault::kWorkerCrashed, 11, false);
  strike(s.worker_oom, Fault::kWorkerOom, 9, true);
  strike(s.worker_hang, Fault::kWorkerWatchdog, 6, false);
  if (now_and_then(s.worker_pause)) {
    world_.hit(Fault::kWorkerPaused);
    any_worker().go_quiet(WorkerNode::Quiet::kStopped, world_.random.between(10, 3000) * kMs);
  }
  if (now_and_then(s.worker_starve)) {
    const bool hung = world_.random.below(4) == 0;
    world_.hit(hung ? Fault::kWorkerHung : Fault::kWorkerStarved);
    any_worker().go_quiet(hung ? WorkerNode::Quiet::kHung : WorkerNode::Quiet::kStarved,
                          world_.random.between(100, 5000) * kMs);
  }
  if (now_and_then(s.worker_drain)) {
    world_.hit(Fault::kWorkerDrained);
    any_worker().drain();
  }
}

void Simulation::disturb_nodes() {
  const Swarm& s = world_.swarm;
  SimRandom& r = world_.random;
  SupervisorNode& node = *nodes_[r.below(nodes_.size())];
  if (now_and_then(s.node_lost)) node.lose(r.between(500, 4000) * kMs);
  if (now_and_then(s.node_cut)) {
    const std::uint64_t way = r.below(3);
    node.cut(r.between(20, 3000) * kMs, way != 0, way != 1);
  }
  if (now_and_then(s.node_leave)) node.leave();
  if (now_and_then(s.op_node) && daemon_.up()) drain_a_node();
}

/// An operator drains a node, and lets it work again after a while, or not before the healing.
void Simulation::drain_a_node() {
  SimRandom& r = world_.random;
  const std::string name = nodes_[r.below(nodes_.size())]->name();
  world_.hit(Fault::kNodeDrained);
  auditor_.node_drain_requested(name);
  daemon_.operate(core::OpNode{1, 8, name, true});
  if (r.below(3) != 0) {
    world_.after(r.between(200, 5000) * kMs, [this, name] { resume_node(name); });
  }
}

void Simulation::resume_node(const std::string& name) {
  auditor_.node_resumed(name);
  daemon_.operate(core::OpNode{1, 8, name, false});
}

void Simulation::operate() {
  const Swarm& s = world_.swarm;
  SimRandom& r = world_.random;
  if (!daemon_.up()) return;
  if (now_and_then(s.op_pause) || (paused_ && r.below(50) == 0)) {
    paused_ = !paused_;
    if (paused_) world_.hit(Fault::kQueuePaused);
    auditor_.pause_requested();
    daemon_.operate(core::OpPause{1, 1, paused_});
  }
  if (now_and_then(s.op_cancel)) {
    const std::string& id = any_id();
    auditor_.cancelled_by_operator(id);
    world_.hit(Fault::kCancelledByOperator);
    daemon_.operate(core::OpCancel{1, 2, id});
  }
  if (now_and_then(s.op_load)) {
    world_.hit(Fault::kModelLoaded);
    daemon_.operate(core::OpModel{1, 3, "models.load", r.below(2) == 0 ? "m0" : "m1"});
  }
  if (now_and_then(s.op_unload)) {
    world_.hit(Fault::kModelUnloaded);
    daemon_.operate(core::OpModel{1, 4, "models.unload", r.below(2) == 0 ? "m0" : "m1"});
  }
  if (now_and_then(s.op_requeue)) {
    world_.hit(Fault::kRequeued);
    const std::string& id = any_id();
    auditor_.requeue_requested(id);
    daemon_.operate(core::OpRequeue{1, 5, id});
  }
  if (now_and_then(s.op_move)) {
    const std::string& id = any_id();
    auditor_.moved(id);
    world_.hit(Fault::kMoved);
    daemon_.operate(core::OpMove{1, 6, id, static_cast<core::PriorityClass>(r.below(3))});
  }
  if (now_and_then(s.op_drain)) {
    world_.hit(Fault::kWorkerToDrain);
    const std::string key = workers_[r.below(workers_.size())]->key();
    daemon_.operate(core::OpWorker{1, 7, key, true});
    world_.after(r.between(100, 3000) * kMs, [this, key] {
      daemon_.operate(core::OpWorker{1, 7, key, false});
    });
  }
  if (s.aliases) make_alias();
  if (now_and_then(s.op_alias)) change_alias();
  if (now_and_then(s.op_shutdown)) daemon_.shut_down(r.between(0, 3000));
}

/// Makes the alias as soon as the models are there.
void Simulation::make_alias() {
  const core::Machine& machine = daemon_.machine();
  if (machine.aliases().all().count(kAlias) > 0 || machine.registry().models().size() < 2) return;
  core::OpAlias op;
  op.name = kAlias;
  op.targets = {{"m0", 1}};
  daemon_.operate(op);
}

void Simulation::change_alias() {
  SimRandom& r = world_.random;
  core::OpAlias alias;
  alias.name = kAlias;
  core::OpCanary canary;
  canary.name = kAlias;
  canary.model = "m1";
  canary.settings = core::nothing_said();
  switch (r.below(8)) {
    case 0:
    case 1:
      alias.targets = {{"m0", 1}};
      break;
    case 2:
      alias.targets = {{"m0", r.between(1, 5)}, {"m1", r.between(1, 5)}};
      break;
    case 3:
      alias.targets = {{r.below(2) == 0 ? "m0" : "m1", 1}};
      alias.when_ready = true;
      break;
    case 4:
      canary.end = r.below(4) == 0 ? core::OpCanary::End::kPromote : core::OpCanary::End::kRollBack;
      break;
    default:
      canary.settings.percent = r.between(10, 90);
      canary.settings.window_ms = r.between(100, 2000);
      canary.settings.min_requests = r.between(1, 5);
      canary.settings.clear_errors = r.between(1, 3);
      canary.settings.promote_after = r.between(0, 4);
      world_.hit(Fault::kCanaryBegun);
      daemon_.operate(canary);
      return;
  }
  if (alias.targets.empty()) {
    daemon_.operate(canary);
  } else {
    world_.hit(Fault::kAliasChanged);
    daemon_.operate(alias);
  }
}

/// Ends all canaries: at the end none may be left, neither in the machine nor in a row.
void Simulation::end_canaries() {
  // Not at once: the row of one that has just ended may be on its way into the database.
  canaries_ended_ = std::exchange(no_canary_, true);
  make_alias();
  for (const auto& [name, alias] : daemon_.machine().aliases().all()) {
    if (!alias.canary) continue;
    canaries_ended_ = no_canary_ = false;
    core::OpCanary op;
    op.name = name;
    op.settings = core::nothing_said();
    op.end = core::OpCanary::End::kRollBack;
    daemon_.operate(op);
    return;
  }
}

// ---- healing

void Simulation::heal() {
  world_.healed = true;
  world_.say([] { return std::string("healing begins"); });
  daemon_.heal();
  network_.end_isolation();
  help();
}

/// Does what an operator does to let every request end.
void Simulation::help() {
  for (auto& node : nodes_) node->start();
  for (auto& worker : workers_) worker->start();
  helper_.start();
  daemon_.help();
  if (daemon_.up()) help_nodes();
  if (daemon_.up()) {
    if (world_.swarm.aliases) end_canaries();
    if (daemon_.machine().core().paused) {
      auditor_.pause_requested();
      daemon_.operate(core::OpPause{1, 1, false});
    }
    for (const auto& [peer, worker] : daemon_.machine().fleet().workers()) {
      if (worker.draining) daemon_.operate(core::OpWorker{1, 7, worker.hello.worker_key, false});
      if (!worker.quarantined) continue;
      daemon_.operate(core::OpWorker{1, 7, worker.hello.worker_key, false});
      const std::string& key = worker.hello.worker_key;
      workers_.at(static_cast<std::size_t>(std::stoi(key.substr(key.find('w') + 1))))
          ->die(15, false);
      break;
    }
    for (const auto& [name, model] : daemon_.machine().registry().models()) {
      if (model.row.state == core::ModelState::kFailed) {
        daemon_.operate(core::OpModel{1, 3, "models.load", name});
      }
    }
    for (const auto& [seq, request] : daemon_.machine().lifecycle().requests().all()) {
      if (request.row.state != wire::RequestState::kQuarantined) continue;
      if (world_.random.below(2) == 0) {
        auditor_.requeue_requested(request.row.id);
        daemon_.operate(core::OpRequeue{1, 5, request.row.id});
      } else {
        auditor_.cancelled_by_operator(request.row.id);
        daemon_.operate(core::OpCancel{1, 2, request.row.id});
      }
    }
  }
  world_.after(200 * kMs, [this] { help(); });
}

/// Lets all nodes work again but one that was drained, if there is another: that one is to end
/// empty.
void Simulation::help_nodes() {
  for (const auto& [name, node] : daemon_.machine().nodes().all()) {
    if (!node.drained || name == stays_drained_) continue;
    if (stays_drained_.empty() && nodes_.size() > 1) {
      stays_drained_ = name;
    } else {
      resume_node(name);
    }
  }
}

/// I19: a node that drains ends empty.
bool Simulation::nodes_done() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [this](const auto& node) {
    return (node->name() != stays_drained_ && !node->is_leaving()) || node->is_empty();
  });
}

bool Simulation::done() const {
  for (const auto& client : clients_) {
    if (!client->done()) return false;
  }
  return daemon_.is_well() && nodes_done() && (canaries_ended_ || !world_.swarm.aliases);
}

Report Simulation::run() {
  daemon_.start();
  helper_.start();
  for (auto& node : nodes_) node->start();
  for (auto& worker : workers_) worker->start();
  for (auto& client : clients_) client->start();
  world_.after(kChaosEveryUs, [this] { chaos(); });
  const std::int64_t calm_us =
      world_.now_us + world_.swarm.submit_over_us + world_.random.between(1, 6) * kSecond;
  while (world_.failure().empty() && world_.now_us < calm_us && world_.run_one()) continue;
  heal();
  const std::int64_t limit_us = world_.now_us + kLivenessUs;
  bool ended = false;
  while (world_.failure().empty() && !(ended = done()) && world_.now_us < limit_us) {
    world_.run_one();
  }
  if (world_.failure().empty() && !ended) {
    std::string open;
    for (const auto& client : clients_) open += client->open_tasks();
    world_.say([&] { return daemon_.state(); });
    world_.fail(open.empty() && !nodes_done() ? "I19 a node that drains is not empty"
                                              : "I14 not ended 60 s after healing:" + open);
  }
  if (world_.failure().empty()) daemon_.stop_and_audit();
  Report report;
  report.failure = world_.failure();
  report.hash = world_.hash();
  report.counts = world_.counts;
  report.counts.seeds = 1;
  report.counts.requests = requests_.size();
  for (const SimRequest& request : requests_)
    report.counts.choices += static_cast<std::uint64_t>(request.submit.n);
  report.counts.simulated_us = world_.now_us;
  daemon_.add_disk_counts(report.counts);
  report.last_lines.assign(world_.last_lines().begin(), world_.last_lines().end());
  return report;
}

}  // namespace

Report run_seed(std::uint64_t seed, bool verbose) {
  Simulation simulation(seed, verbose);
  return simulation.run();
}

}  // namespace holdfast::simulation
