// Liveness: suspect and lost workers. A suspect worker may only be starved: it gets no new work,
// its loads and fences stay, and nothing is lost when it speaks again. A lost one loses its fences
// at once and its work is dispatched again; that is not taken back.
#include <algorithm>

#include "control/core/machine.h"

namespace holdfast::core {
namespace {

std::string milliseconds(std::int64_t us) {
  return std::to_string(us / 1000) + " ms";
}

}  // namespace

void Machine::on(const WorkerHealth& event) {
  using Process = WorkerHealth::Process;
  const auto it = workers_.find(event.peer);
  const bool stopped = event.process == Process::kStopped;
  const bool silent = event.silent_us >= config_.link_worker_timeout_ms * 1000;
  if (it == workers_.end()) {
    const bool spoke = event.process != Process::kEnded && !stopped && event.silent_us == 0;
    if (spoke) ask_to_greet(event.peer);
    return;
  }
  if (event.process == Process::kEnded) return worker_gone(event.peer, "its process ended");
  if (stopped && event.stopped_us >= config_.link_worker_stopped_ms * 1000) {
    return lose(event.peer, "stopped for " + milliseconds(event.stopped_us));
  }
  if (event.unexcused_us >= config_.link_worker_lost_ms * 1000) {
    return lose(event.peer, "silent for " + milliseconds(event.silent_us) + ", of these " +
                                milliseconds(event.unexcused_us) +
                                " without waiting for a processor");
  }
  Worker& worker = it->second;
  if (stopped || silent) {
    suspect(worker,
            stopped ? "its process is stopped" : "silent for " + milliseconds(event.silent_us));
  } else if (event.silent_us == 0 && worker.suspect) {
    trust_again(worker);
  }
}

void Machine::suspect(Worker& worker, const std::string& why) {
  worker.suspicion = why;
  if (worker.suspect) return;
  worker.suspect = true;
  ++counters_.suspicions;
  out_->note("worker suspect: it gets no new work", {{"worker", worker.hello.worker_key},
                                                     {"pid", std::to_string(worker.hello.pid)},
                                                     {"why", why}});
  want_dispatch_ = true;  // what it runs may begin again on an idle worker
}

void Machine::trust_again(Worker& worker) {
  worker.suspect = false;
  ++counters_.false_suspicions;
  out_->note("worker speaks again",
             {{"worker", worker.hello.worker_key}, {"was", worker.suspicion}});
  worker.suspicion.clear();
  want_dispatch_ = want_placement_ = true;
}

/// Gives up a worker whose process and connection may live on: it must say HELLO again before it is
/// listened to.
void Machine::lose(PeerId peer, const std::string& why) {
  lost_peers_[peer] = false;
  worker_gone(peer, why, true);
}

/// Asks for a new HELLO from a worker that speaks although it was given up, or its connection was
/// taken for gone.
void Machine::ask_to_greet(PeerId peer) {
  const bool replaced = hellos_.count(peer) > 0 && lost_peers_.count(peer) == 0;
  if (replaced) return;  // its process has a newer connection
  const auto lost = lost_peers_.try_emplace(peer, false).first;
  if (lost->second) return;
  lost->second = true;
  wire::Welcome again{fences_.epoch(), {}, true};
  if (const auto hello = hellos_.find(peer); hello != hellos_.end()) {
    again.worker_id = hello->second.worker_key;
  }
  out_->send(peer, std::move(again));
}

/// Returns the ready loads of workers that run nothing at all.
std::vector<Load*> Machine::idle_loads() {
  std::vector<Load*> idle;
  for (auto& [peer, worker] : workers_) {
    if (!worker.takes_work()) continue;
    const bool runs = std::any_of(worker.loads.begin(), worker.loads.end(),
                                  [&](const auto& id) { return !loads_.at(id).running.empty(); });
    if (runs) continue;
    for (const std::string& id : worker.loads) {
      Load& load = loads_.at(id);
      if (load.row.state == ModelState::kReady && load.held_until_us <= now_.mono_us) {
        idle.push_back(&load);
      }
    }
  }
  return idle;
}

bool Machine::may_begin_again(const Request& request, const Choice& choice, const Load& load) {
  const std::string& numerics = request.row.numerics_class;
  if (load.row.model != request.row.model || load.alone || !breakers_allow(load)) return false;
  if (!numerics.empty() && load.row.numerics_class != numerics) return false;
  if (suspicion(choice, config_) != Suspicion::kNone && !load.running.empty()) return false;
  QueueItem item;
  item.pages = choice.pages_at_most;
  return bounds_allow(load, item, {}) &&
         fits_now(load, request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] +
                            choice.row.next_index);
}

/// Begins a second attempt, which takes the fence over: whatever the first one still sends is
/// refused.
void Machine::begin_again(Request& request, Choice& choice, Load& load) {
  out_->send(choice.worker, wire::CancelWork{request.row.id, choice.row.choice, choice.fence});
  end_attempt(request, choice, "second attempt: its worker is suspect");
  choice.resumed = true;
  choice.second_index = choice.row.next_index;
  ++counters_.second_attempts;
  load.alone = suspicion(choice, config_) != Suspicion::kNone;
  start_choice(request, choice, load);
}

/// Begins the work of suspect workers again elsewhere, but only on workers that have nothing else
/// to do, and only once at each index: on a starved machine work must not go round in circles.
void Machine::second_attempts() {
  const bool doubt = std::any_of(workers_.begin(), workers_.end(),
                                 [](const auto& item) { return item.second.suspect; });
  if (paused_ || draining_ || !doubt) return;
  const std::vector<Load*> idle = idle_loads();
  if (idle.empty()) return;
  for (const auto& [peer, worker] : workers_) {
    if (!worker.suspect) continue;
    for (const std::string& id : std::set<std::string>(worker.loads)) {
      for (const ChoiceRef& ref : std::set<ChoiceRef>(loads_.at(id).running)) {
        Request* request = requests_.by_seq(ref.seq);
        CHECK(request != nullptr);
        Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
        if (choice.phase != ChoicePhase::kRunning || choice.second_index == choice.row.next_index) {
          continue;
        }
        const auto to = std::find_if(idle.begin(), idle.end(), [&](const Load* load) {
          return may_begin_again(*request, choice, *load);
        });
        if (to != idle.end()) begin_again(*request, choice, **to);
      }
    }
  }
}

}  // namespace holdfast::core
