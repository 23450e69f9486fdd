// Workers that connect, leave and come back.
#include "control/core/fleet.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/memory_pools.h"
#include "control/core/nodes.h"
#include "control/core/postmortem.h"
#include "control/core/registry.h"

namespace holdfast::core {
namespace {

constexpr std::size_t kRememberedLost = 32;

}  // namespace

/// Takes up the HELLO of another connection of a worker whose connection is gone. HELLOs of a dead
/// connection can be read after those of its successor, which the worker takes for the current one:
/// it will not say HELLO again.
void Fleet::hear_again(const std::string& worker_key, const std::string& incarnation) {
  for (auto it = hellos_.rbegin(); it != hellos_.rend(); ++it) {
    if (it->second.worker_key != worker_key || it->second.incarnation != incarnation) continue;
    const auto [peer, hello] = *it;
    worker_message(peer, hello);
    return;
  }
}

void Fleet::worker_peer_gone(PeerId peer) {
  const bool was_lost = lost_peers_.erase(peer) > 0;
  const auto said = hellos_.find(peer);
  if (said == hellos_.end()) return;
  const wire::Hello hello = std::move(said->second);
  hellos_.erase(said);
  const bool was_worker = workers_.count(peer) > 0;
  if (was_worker) worker_gone(peer, "connection lost");
  const bool elsewhere = std::any_of(workers_.begin(), workers_.end(), [&](const auto& item) {
    return item.second.hello.worker_key == hello.worker_key;
  });
  if (was_worker || (was_lost && !elsewhere)) hear_again(hello.worker_key, hello.incarnation);
}

/// Leaves what a worker runs and holds to its new connection.
void Fleet::leave_to_adoption(Worker& worker) {
  for (auto& [seq, request] : lifecycle_.requests().all()) {
    if (request.running == 0) continue;
    for (Choice& choice : request.choices) {
      if (choice.phase != ChoicePhase::kRunning || choice.worker != worker.peer) continue;
      loads_.leave_worker(choice, {seq, choice.row.choice});
      choice.phase = ChoicePhase::kAdopting;
    }
  }
  for (const std::string& id : worker.loads) {
    if (const auto load = loads_.all().find(id); load != loads_.all().end()) {
      load->second.worker = 0;
    }
  }
}

/// Ends the older connections of a key: the newest HELLO is the worker.
void Fleet::supersede(const wire::Hello& hello) {
  for (auto it = workers_.begin(); it != workers_.end();) {
    Worker& other = (it++)->second;
    if (other.hello.worker_key != hello.worker_key) continue;
    if (other.hello.incarnation == hello.incarnation) {
      // The same process on a new connection (or a repeated HELLO): what it runs goes on.
      leave_to_adoption(other);
      memory_.forget_worker(other.peer);
      workers_.erase(other.peer);
    } else {
      worker_gone(other.peer, "replaced by a new process");
    }
  }
}

void Fleet::worker_message(PeerId peer, const wire::Hello& m) {
  hellos_[peer] = m;
  lost_peers_.erase(peer);
  lost_workers_.erase(m.worker_key);
  const auto existing = workers_.find(peer);
  if (existing != workers_.end() && existing->second.hello.incarnation == m.incarnation) {
    core_.out->send(peer,
                    wire::Welcome{core_.fences.epoch(), m.worker_key});  // it crossed our answer
    return;
  }
  supersede(m);
  Worker worker;
  worker.peer = peer;
  worker.hello = m;
  worker.hello.models.clear();
  worker.hello.active.clear();
  worker.free_at_change = m.memory.free;
  worker.since_ms = core_.now.wall_ms;
  worker.spoke_us = core_.now.mono_us;
  Worker& in = workers_[peer] = std::move(worker);
  memory_.forget_remains(m.worker_key, m.incarnation);
  memory_.hear_worker_memory(in, m.memory);
  core_.out->note("worker connected", {{"worker", m.worker_key},
                                       {"pid", std::to_string(m.pid)},
                                       {"device", m.device},
                                       {"kernels", m.kernels},
                                       {"active", std::to_string(m.active.size())},
                                       {"models", std::to_string(m.models.size())}});
  core_.out->send(peer, wire::Welcome{core_.fences.epoch(), m.worker_key});
  if (const auto bad = quarantined_workers_.find(m.worker_key); bad != quarantined_workers_.end()) {
    in.quarantined = true;
    in.quarantine_reason = bad->second;
  }
  if (drained_workers_.count(m.worker_key) > 0 || nodes_.is_draining(m.worker_key)) {
    in.draining = true;
    core_.out->send(peer, wire::Drain{});
  }
  reconcile_loads(in, m);
  adopt(in, m);
  core_.want_placement = core_.want_dispatch = true;
}

/// Records a lost worker for operators. One that was drained is not missed.
void Fleet::remember_lost(const Worker& worker, const std::string& why) {
  if (worker.draining) return;
  lost_workers_[worker.hello.worker_key] = {worker.hello.pid, worker.hello.host,
                                            worker.hello.device, why, core_.now.wall_ms};
  while (lost_workers_.size() > kRememberedLost) {
    const auto oldest = std::min_element(
        lost_workers_.begin(), lost_workers_.end(),
        [](const auto& a, const auto& b) { return a.second.since_ms < b.second.since_ms; });
    lost_workers_.erase(oldest);
  }
}

void Fleet::worker_gone(PeerId peer, const std::string& why, bool returns) {
  const auto it = workers_.find(peer);
  if (it == workers_.end()) return;
  const Worker worker = it->second;
  workers_.erase(it);
  memory_.forget_worker(peer);
  ++core_.counters.workers_lost;
  WorkerLoss lost;
  lost.pid = worker.hello.pid;
  lost.worker_key = worker.hello.worker_key;
  lost.incarnation = worker.hello.incarnation;
  for (const std::string& id : worker.loads) {
    const auto load = loads_.all().find(id);
    if (load == loads_.all().end()) continue;
    const std::set<ChoiceRef> running = load->second.running;
    if (!running.empty()) lost.models.push_back(load->second.row.model);
    lost.suspect = lost.suspect || load->second.alone;
    for (const ChoiceRef& ref : running) {
      Request* request = lifecycle_.requests().by_seq(ref.seq);
      CHECK(request != nullptr);
      Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
      lost.running.emplace_back(ref, choice.row.next_index);
      if (choice.phase != ChoicePhase::kRunning) continue;  // its request was quarantined just now
      lifecycle_.requeue(*request, choice, "worker lost: " + why);
    }
    const ModelState state = load->second.row.state;
    if (state == ModelState::kReady || (returns && state != ModelState::kDraining)) {
      // A paused process or a cut connection comes back with its weights: give it a moment.
      load->second.worker = 0;
      load->second.deadline_us = core_.now.mono_us + core_.config.workers_reconnect_ms * 1000;
      core_.timers.add_keyed(load->second.deadline_us, TimerKind::kLoad, id);
      if (const auto model = registry_.models().find(load->second.row.model);
          model != registry_.models().end()) {
        registry_.refresh_model(model->second, "worker lost: " + why);
      }
    } else if (state == ModelState::kDraining) {
      memory_.leave_remains(load->second, true);
      loads_.end_load(id, ModelState::kUnloaded, "worker lost: " + why);
    } else {
      lost.loading.push_back(load->second.row.model);
      memory_.leave_remains(load->second, true);
      loads_.load_lost(load->second, "worker lost while loading: " + why);
      const auto model = registry_.models().find(lost.loading.back());
      if (model == registry_.models().end()) continue;
      registry_.count_load_failure(model->second, lost.worker_key,
                                   "worker lost while loading: " + why, true);
    }
  }
  remember_lost(worker, why);
  core_.out->note("worker lost",
                  {{"worker", worker.hello.worker_key},
                   {"pid", std::to_string(worker.hello.pid)},
                   {"why", why},
                   {"requeued", std::to_string(lost.running.size())}},
                  true);
  postmortem_.lost(std::move(lost));
  core_.want_placement = core_.want_dispatch = true;
}

void Fleet::worker_message(PeerId peer, const wire::WorkerStats& m) {
  Worker& worker = workers_.at(peer);
  worker.stats = m;
  if (m.memory.total > 0) memory_.hear_worker_memory(worker, m.memory);
}

void Fleet::worker_message(PeerId peer, const wire::Drain& m) {
  workers_.at(peer).draining = !m.resume;
  core_.want_dispatch = core_.want_dispatch || m.resume;
}

void Fleet::worker_message(PeerId peer, const wire::Drained&) {
  core_.out->note("worker drained", {{"worker", workers_.at(peer).hello.worker_key}});
}

void Fleet::boot(const Boot& event) {
  drained_workers_.insert(event.drained_workers.begin(), event.drained_workers.end());
  quarantined_workers_ = event.quarantined_workers;
}

bool Fleet::listens_to(const FromWorker& event) {
  const auto worker = workers_.find(event.peer);
  if (worker != workers_.end()) worker->second.spoke_us = core_.now.mono_us;
  if (std::holds_alternative<wire::Hello>(event.message) || worker != workers_.end()) return true;
  ask_to_greet(event.peer);
  return false;
}

}  // namespace holdfast::core
