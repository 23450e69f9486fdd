// Liveness: suspect and lost workers. A suspect worker may only be starved: it gets no new work,
// its loads and fences stay, and nothing is lost when it speaks again. A lost one loses its fences
// at once and its work is dispatched again; that is not taken back.
#include <string>
#include <utility>
#include <vector>

#include "control/core/fleet.h"
#include "control/core/nodes.h"

namespace holdfast::core {
namespace {

std::string milliseconds(std::int64_t us) {
  return std::to_string(us / 1000) + " ms";
}

}  // namespace

void Fleet::on(const WorkerHealth& event) {
  using Process = WorkerHealth::Process;
  const auto it = workers_.find(event.peer);
  const bool stopped = event.process == Process::kStopped;
  const bool silent = event.silent_us >= core_.config.link_worker_timeout_ms * 1000;
  if (it == workers_.end()) {
    const bool spoke = event.process != Process::kEnded && !stopped && event.silent_us == 0;
    if (spoke) ask_to_greet(event.peer);
    return;
  }
  if (event.process == Process::kEnded) return worker_gone(event.peer, "its process ended");
  if (stopped && event.stopped_us >= core_.config.link_worker_stopped_ms * 1000) {
    return lose(event.peer, "stopped for " + milliseconds(event.stopped_us));
  }
  if (event.unexcused_us >= core_.config.link_worker_lost_ms * 1000) {
    return lose(event.peer, "silent for " + milliseconds(event.silent_us) + ", of these " +
                                milliseconds(event.unexcused_us) +
                                " without waiting for a processor");
  }
  Worker& worker = it->second;
  if (stopped || silent) {
    suspect(worker, &Worker::self_suspect,
            stopped ? "its process is stopped" : "silent for " + milliseconds(event.silent_us));
  } else if (event.silent_us == 0) {
    trust_again(worker, &Worker::self_suspect);
  }
}

void Fleet::suspect(Worker& worker, Doubt doubt, const std::string& why) {
  worker.suspicion = why;
  worker.*doubt = true;
  if (worker.suspect) return;
  worker.suspect = true;
  ++core_.counters.suspicions;
  core_.out->note("worker suspect: it gets no new work", {{"worker", worker.hello.worker_key},
                                                          {"pid", std::to_string(worker.hello.pid)},
                                                          {"why", why}});
  core_.want_dispatch = true;  // what it runs may begin again on an idle worker
}

void Fleet::trust_again(Worker& worker, Doubt doubt) {
  worker.*doubt = false;
  if (!worker.suspect || worker.self_suspect || worker.node_suspect) return;
  worker.suspect = false;
  ++core_.counters.false_suspicions;
  core_.out->note("worker speaks again",
                  {{"worker", worker.hello.worker_key}, {"was", worker.suspicion}});
  worker.suspicion.clear();
  core_.want_dispatch = core_.want_placement = true;
}

/// Gives up a worker whose process and connection may live on: it must say HELLO again before it is
/// listened to.
void Fleet::lose(PeerId peer, const std::string& why) {
  lost_peers_[peer] = false;
  worker_gone(peer, why, true);
}

void Fleet::node_is_silent(const std::string& node, const NodeSilence& silence) {
  std::vector<PeerId> given_up;
  for (auto& [peer, worker] : workers_) {
    if (node_of(worker.hello.worker_key) != node) continue;
    if (!silence.deaf && worker.spoke_us > silence.since_us) {
      trust_again(worker, &Worker::node_suspect);
    } else if (silence.lost) {
      given_up.push_back(peer);
    } else {
      suspect(worker, &Worker::node_suspect, "its node: " + silence.why);
    }
  }
  for (const PeerId peer : given_up) lose(peer, "its node: " + silence.why);
}

void Fleet::node_speaks(const std::string& node) {
  for (auto& [peer, worker] : workers_) {
    if (node_of(worker.hello.worker_key) == node) trust_again(worker, &Worker::node_suspect);
  }
  for (const auto& [peer, hello] : hellos_) {
    if (node_of(hello.worker_key) == node && lost_peers_.contains(peer)) ask_to_greet(peer);
  }
}

/// Asks for a new HELLO from a worker that speaks although it was given up, or its connection was
/// taken for gone.
void Fleet::ask_to_greet(PeerId peer) {
  const bool replaced = hellos_.count(peer) > 0 && lost_peers_.count(peer) == 0;
  if (replaced) return;  // its process has a newer connection
  const auto lost = lost_peers_.try_emplace(peer, false).first;
  if (lost->second) return;
  lost->second = true;
  wire::Welcome again{core_.fences.epoch(), {}, true};
  if (const auto hello = hellos_.find(peer); hello != hellos_.end()) {
    again.worker_id = hello->second.worker_key;
  }
  core_.out->send(peer, std::move(again));
}

}  // namespace holdfast::core
