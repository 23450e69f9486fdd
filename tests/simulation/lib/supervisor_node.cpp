#include "tests/simulation/lib/supervisor_node.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tests/simulation/lib/control_plane.h"
#include "tests/simulation/lib/worker_node.h"

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kReportUs = kSecond;
constexpr std::int64_t kLookEmptyUs = 50 * kMs;
// Whatever runs on a node ends in this time, if nothing happens to it.
constexpr std::int64_t kDrainUs = 45 * kSecond;

}  // namespace

SupervisorNode::SupervisorNode(World& world, Network& network, ControlPlane& daemon, int index)
    : world_(world),
      network_(network),
      daemon_(daemon),
      name_("n" + std::to_string(index)),
      index_(index) {}

void SupervisorNode::start() {
  if (runs_) return;
  runs_ = true;
  leaving_ = false;
  ++life_;
  session_ = {};
  sent_ = received_ = 0;
  connection_ = 0;
  network_.connect(this, Role::kNode);
  for (WorkerNode* worker : workers_) worker->start();
  beat();
}

void SupervisorNode::stop() {
  runs_ = leaving_ = false;
  ++life_;
}

void SupervisorNode::lose(std::int64_t away_us) {
  if (!runs_) return;
  world_.hit(Fault::kNodeLost);
  stop();
  // No last word is sent: the other side waits for signs of life.
  const std::int64_t noticed_us = world_.random.between(1, 4) * kSecond;
  network_.cut(std::exchange(connection_, 0), noticed_us, -1);
  for (WorkerNode* worker : workers_) worker->lose_machine(noticed_us);
  const std::uint64_t life = life_;
  world_.after(away_us, [this, life] {
    if (life == life_) start();
  });
}

void SupervisorNode::cut(std::int64_t us, bool up, bool down) {
  if (!runs_) return;
  world_.hit(up && down ? Fault::kNodeCut : Fault::kNodeCutOneWay);
  const std::int64_t until_us = world_.now_us + us;
  if (up) cut_up_until_us_ = std::max(cut_up_until_us_, until_us);
  if (down) cut_down_until_us_ = std::max(cut_down_until_us_, until_us);
  const auto hold = [&](Endpoint* peer, PeerId connection) {
    network_.hold(connection, up ? us : 0, down ? us : 0);
    network_.isolate(peer, until_us);  // no new one comes up either
  };
  hold(this, connection_);
  for (WorkerNode* worker : workers_) hold(worker, worker->connection());
}

// ---- reports

void SupervisorNode::on_connected(PeerId connection) {
  if (!runs_) return network_.cut(connection, 0, -1);
  connection_ = connection;
  report();
}

void SupervisorNode::on_lost(PeerId connection) {
  if (connection != connection_ || !runs_) return;
  connection_ = 0;
  network_.connect(this, Role::kNode);
}

void SupervisorNode::send_report(const char* verb) {
  wire::Op op;
  op.tag = ++reports_;
  op.verb = verb;
  op.tenant = name_;  // as its key says
  op.args = std::to_string(life_);
  network_.send_to_daemon(connection_, std::move(op));
}

void SupervisorNode::report() {
  if (connection_ == 0) return;
  send_report(leaving_ ? "leaving" : "report");
  const std::uint64_t life = life_;
  world_.after(kReportUs, [this, life, round = reports_, connection = connection_] {
    if (life == life_ && round == reports_ && connection == connection_) report();
  });
}

/// The answer to a report has the session of the datagrams.
void SupervisorNode::on_message(PeerId connection, wire::Message& message) {
  const auto* answer = std::get_if<wire::OpResult>(&message);
  if (connection != connection_ || !runs_ || answer == nullptr || !answer->ok) return;
  const auto key = wire::parse_liveness_key(answer->bytes);
  const std::uint64_t id = std::strtoull(answer->result.c_str(), nullptr, 10);
  if (!key || id == 0 || id == session_.id) return;
  session_ = {id, *key};
  sent_ = received_ = 0;
}

// ---- datagrams

void SupervisorNode::beat() {
  const std::uint64_t life = life_;
  world_.after(wire::kLivenessEveryUs, [this, life] {
    if (life == life_) beat();
  });
  if (session_.id == 0 || connection_ == 0 || !world_.swarm.datagrams) return;
  wire::NodeDatagram datagram;
  datagram.session = session_.id;
  datagram.counter = ++sent_;
  datagram.last_received = received_;
  if (!speaks()) return;
  if (world_.accident(world_.swarm.datagram_loss)) return world_.hit(Fault::kDatagramLost);
  daemon_.send_datagram(connection_, index_, wire::seal(datagram, session_.key));
}

void SupervisorNode::received(const std::string& datagram) {
  if (!runs_ || world_.now_us < cut_down_until_us_) return;
  const auto opened = wire::open_daemon_datagram(datagram, session_.key);
  if (opened && opened->session == session_.id) received_ = std::max(received_, opened->counter);
}

// ---- the end

bool SupervisorNode::is_empty() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const WorkerNode* worker) { return worker->is_idle(); });
}

void SupervisorNode::leave() {
  if (!runs_ || leaving_ || connection_ == 0) return;
  world_.hit(Fault::kNodeLeaves);
  leaving_ = true;
  left_at_us_ = world_.now_us;
  report();
  look_whether_empty();
}

/// I19: a node that drains ends empty.
void SupervisorNode::look_whether_empty() {
  const std::uint64_t life = life_;
  world_.after(kLookEmptyUs, [this, life] {
    if (life != life_) return;
    if (world_.now_us - left_at_us_ > kDrainUs) {
      return world_.fail("I19 node " + name_ + " has drained for " +
                         std::to_string(kDrainUs / kSecond) + " s and has work still");
    }
    // Not before the daemon has been told.
    if (!is_empty() || connection_ == 0 || world_.now_us - left_at_us_ < kReportUs) {
      return look_whether_empty();
    }
    end();
  });
}

void SupervisorNode::end() {
  world_.hit(Fault::kNodeLeft);
  send_report("left");
  stop();
  for (WorkerNode* worker : workers_) worker->die(0, false);
  const std::uint64_t life = life_;
  const PeerId connection = connection_;
  world_.after(world_.random.between(100, 3000) * kMs, [this, life, connection] {
    network_.cut(connection, 0, -1);
    if (life == life_) start();
  });
}

}  // namespace holdfast::simulation
