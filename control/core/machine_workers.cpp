// Workers that connect, leave, come back and die.
#include <algorithm>

#include "control/core/machine.h"
#include "shared/base/step_journal.h"

namespace holdfast::core {
namespace {

constexpr std::size_t kRememberedDeaths = 64;
constexpr std::size_t kRememberedLost = 32;

bool was_in_step(const WorkerExit& exit, const std::string& id, std::int32_t choice) {
  if (!exit.step.has_value()) return true;
  const std::uint64_t mark = step_mark(id, choice);
  return std::find(exit.step->begin(), exit.step->end(), mark) != exit.step->end();
}

}  // namespace

/// Takes up the HELLO of another connection of a worker whose connection is gone. HELLOs of a dead
/// connection can be read after those of its successor, which the worker takes for the current one:
/// it will not say HELLO again.
void Machine::hear_again(const std::string& worker_key, const std::string& incarnation) {
  for (auto it = hellos_.rbegin(); it != hellos_.rend(); ++it) {
    if (it->second.worker_key != worker_key || it->second.incarnation != incarnation) continue;
    const auto [peer, hello] = *it;
    worker_message(peer, hello);
    return;
  }
}

void Machine::worker_peer_gone(PeerId peer) {
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

void Machine::worker_message(PeerId peer, const wire::Hello& m) {
  hellos_[peer] = m;
  lost_peers_.erase(peer);
  lost_workers_.erase(m.worker_key);
  const auto existing = workers_.find(peer);
  if (existing != workers_.end() && existing->second.hello.incarnation == m.incarnation) {
    out_->send(peer, wire::Welcome{fences_.epoch(), m.worker_key});  // it crossed our answer
    return;
  }
  // The newest HELLO of a key is the worker: an older connection of it has lost its rights.
  for (auto it = workers_.begin(); it != workers_.end();) {
    Worker& other = (it++)->second;
    if (other.hello.worker_key != m.worker_key) continue;
    if (other.hello.incarnation == m.incarnation) {
      // The same process on a new connection (or a repeated HELLO): what it runs goes on.
      for (auto& [seq, request] : requests_.all()) {
        if (request.running == 0) continue;
        for (Choice& choice : request.choices) {
          if (choice.phase != ChoicePhase::kRunning || choice.worker != other.peer) continue;
          leave_worker(choice, {seq, choice.row.choice});
          choice.phase = ChoicePhase::kAdopting;
        }
      }
      for (const std::string& id : other.loads) {
        if (const auto load = loads_.find(id); load != loads_.end()) load->second.worker = 0;
      }
      workers_.erase(other.peer);
    } else {
      worker_gone(other.peer, "replaced by a new process");
    }
  }
  Worker worker;
  worker.peer = peer;
  worker.hello = m;
  worker.hello.models.clear();
  worker.hello.active.clear();
  worker.free_at_change = m.memory.free;
  worker.since_ms = now_.wall_ms;
  Worker& in = workers_[peer] = std::move(worker);
  forget_remains(m.worker_key, m.incarnation);
  hear_worker_memory(in, m.memory);
  out_->note("worker connected", {{"worker", m.worker_key},
                                  {"pid", std::to_string(m.pid)},
                                  {"device", m.device},
                                  {"kernels", m.kernels},
                                  {"active", std::to_string(m.active.size())},
                                  {"models", std::to_string(m.models.size())}});
  out_->send(peer, wire::Welcome{fences_.epoch(), m.worker_key});
  if (const auto bad = quarantined_workers_.find(m.worker_key); bad != quarantined_workers_.end()) {
    in.quarantined = true;
    in.quarantine_reason = bad->second;
  }
  if (drained_workers_.count(m.worker_key) > 0) {
    in.draining = true;
    out_->send(peer, wire::Drain{});
  }
  reconcile_loads(in, m);
  adopt(in, m);
  want_placement_ = want_dispatch_ = true;
}

/// Compares what the worker holds with what the database says: the database decides.
void Machine::reconcile_loads(Worker& worker, const wire::Hello& hello) {
  std::set<std::string> reported;
  for (const wire::LoadedModel& model : hello.models) {
    reported.insert(model.load_id);
    const auto it = loads_.find(model.load_id);
    const bool ours = it != loads_.end() && it->second.worker == 0 &&
                      it->second.row.worker_key == hello.worker_key &&
                      it->second.row.model_sha == model.model_sha;
    if (!ours) {
      out_->send(worker.peer, wire::Unload{model.load_id});
      record_remains_of(worker, model);
      continue;
    }
    it->second.pools.emplace();
    for (const MemoryPool& pool : worker.hello.memory.pools) {
      it->second.pools->push_back(pool.key);
    }
    it->second.worker = worker.peer;
    it->second.row.incarnation = hello.incarnation;
    worker.loads.insert(model.load_id);
    worker_message(worker.peer, wire::StateReport{model});
  }
  std::vector<std::string> missing;
  for (const auto& [id, load] : loads_) {
    if (load.row.worker_key == hello.worker_key && reported.count(id) == 0) missing.push_back(id);
  }
  drop_remains([&](const Remains& left) {
    return left.row.worker_key == hello.worker_key && reported.count(left.row.load_id) == 0;
  });
  for (const std::string& id : missing) {
    const auto found = loads_.find(id);
    if (found == loads_.end()) continue;
    Load& load = found->second;
    if (load.row.state == ModelState::kReady || load.row.state == ModelState::kDraining) {
      end_load(id, ModelState::kUnloaded, "the worker does not hold it any more");
    } else {
      const std::string name = load.row.model;
      load_lost(load, "the worker knows nothing of it any more");
      if (const auto model = models_.find(name); model != models_.end()) {
        count_load_failure(model->second, hello.worker_key, "its worker knows nothing of it", true);
      }
    }
  }
}

void Machine::adopt(Worker& worker, const wire::Hello& hello) {
  std::set<ChoiceRef> listed;
  for (const wire::ActiveItem& item : hello.active) {
    if (adopt_item(worker, item)) {
      listed.insert({requests_.by_id(item.request_id)->row.seq, item.choice});
    } else {
      out_->send(worker.peer, wire::Drop{item.request_id, item.choice, "not wanted any more"});
    }
  }
  // Choices that this worker was given and does not list never arrived, or died with its last
  // process.
  for (auto& [seq, request] : requests_.all()) {
    if (request.running == 0) continue;
    for (Choice& choice : request.choices) {
      if (choice.phase == ChoicePhase::kAdopting && choice.worker_key == hello.worker_key &&
          listed.count({seq, choice.row.choice}) == 0) {
        requeue(request, choice, "not listed by its worker");
      }
    }
  }
}

/// Adopts a choice that the worker still runs. Only its current fence allows that; the choice goes
/// on under a new one.
bool Machine::adopt_item(Worker& worker, const wire::ActiveItem& item) {
  Request* request = requests_.by_id(item.request_id);
  if (request == nullptr || item.choice < 0 ||
      static_cast<std::size_t>(item.choice) >= request->choices.size()) {
    return false;
  }
  Choice& choice = request->choices[static_cast<std::size_t>(item.choice)];
  const auto load = loads_.find(choice.load_id);
  const std::string& numerics = request->row.numerics_class;
  if (choice.phase != ChoicePhase::kAdopting || choice.fence != item.fence ||
      choice.worker_key != worker.hello.worker_key ||
      choice.incarnation != worker.hello.incarnation || load == loads_.end() ||
      load->second.worker != worker.peer || item.first_unacked > choice.row.next_index ||
      !(numerics.empty() || numerics == load->second.row.numerics_class)) {
    return false;
  }
  out_->write(EndAttempt{request->row.seq, choice.row.choice, choice.fence, now_.wall_ms,
                         choice.row.next_index, "adopted"},
              Durability::kNormal);
  choice.fence = fences_.next();
  choice.phase = ChoicePhase::kRunning;
  choice.worker = worker.peer;
  choice.started_us = 0;  // its time on the worker is not known any more
  const std::int64_t tokens =
      request->prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] + choice.row.next_index;
  choice.pages = pages_for(tokens + 1, load->second.row.page_tokens);
  load->second.pages_used += choice.pages;
  load->second.running.insert({request->row.seq, choice.row.choice});
  load->second.alone = suspicion(choice, config_) != Suspicion::kNone;
  ++counters_.adopted;
  if (request->row.state == RequestState::kQueued) {
    change(*request, RequestChange::kDispatched);
    write_request(*request, Durability::kNormal);
  }
  out_->write(
      BeginAttempt{request->row.seq, choice.row.choice, choice.fence, choice.worker_key,
                   choice.incarnation, choice.load_id, choice.row.next_index, true, now_.wall_ms},
      Durability::kNormal);
  out_->send(worker.peer,
             wire::Adopt{item.request_id, item.choice, choice.fence, choice.row.next_index});
  return true;
}

/// Records a lost worker for operators. One that was drained is not missed.
void Machine::remember_lost(const Worker& worker, const std::string& why) {
  if (worker.draining) return;
  lost_workers_[worker.hello.worker_key] = {worker.hello.pid, worker.hello.host,
                                            worker.hello.device, why, now_.wall_ms};
  while (lost_workers_.size() > kRememberedLost) {
    const auto oldest = std::min_element(
        lost_workers_.begin(), lost_workers_.end(),
        [](const auto& a, const auto& b) { return a.second.since_ms < b.second.since_ms; });
    lost_workers_.erase(oldest);
  }
}

/// Ends all fences of a worker that is gone; everything that it ran is queued again as resumed
/// work.
void Machine::worker_gone(PeerId peer, const std::string& why, bool returns) {
  const auto it = workers_.find(peer);
  if (it == workers_.end()) return;
  const Worker worker = it->second;
  workers_.erase(it);
  ++counters_.workers_lost;
  Lost lost;
  lost.pid = worker.hello.pid;
  lost.worker_key = worker.hello.worker_key;
  lost.incarnation = worker.hello.incarnation;
  for (const std::string& id : worker.loads) {
    const auto load = loads_.find(id);
    if (load == loads_.end()) continue;
    const std::set<ChoiceRef> running = load->second.running;
    if (!running.empty()) lost.models.push_back(load->second.row.model);
    lost.suspect = lost.suspect || load->second.alone;
    for (const ChoiceRef& ref : running) {
      Request* request = requests_.by_seq(ref.seq);
      CHECK(request != nullptr);
      Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
      lost.running.emplace_back(ref, choice.row.next_index);
      if (choice.phase != ChoicePhase::kRunning) continue;  // its request was quarantined just now
      requeue(*request, choice, "worker lost: " + why);
    }
    const ModelState state = load->second.row.state;
    if (state == ModelState::kReady || (returns && state != ModelState::kDraining)) {
      // A paused process or a cut connection comes back with its weights: give it a moment.
      load->second.worker = 0;
      load->second.deadline_us = now_.mono_us + config_.workers_reconnect_ms * 1000;
      timers_.add_keyed(load->second.deadline_us, TimerKind::kLoad, id);
      if (const auto model = models_.find(load->second.row.model); model != models_.end()) {
        refresh_model(model->second, "worker lost: " + why);
      }
    } else if (state == ModelState::kDraining) {
      leave_remains(load->second, true);
      end_load(id, ModelState::kUnloaded, "worker lost: " + why);
    } else {
      lost.loading.push_back(load->second.row.model);
      leave_remains(load->second, true);
      load_lost(load->second, "worker lost while loading: " + why);
      const auto model = models_.find(lost.loading.back());
      if (model == models_.end()) continue;
      count_load_failure(model->second, lost.worker_key, "worker lost while loading: " + why, true);
    }
  }
  remember_lost(worker, why);
  out_->note("worker lost",
             {{"worker", worker.hello.worker_key},
              {"pid", std::to_string(worker.hello.pid)},
              {"why", why},
              {"requeued", std::to_string(lost.running.size())}},
             true);
  const auto exit = std::find_if(exits_.begin(), exits_.end(),
                                 [&](const WorkerExit& e) { return e.pid == worker.hello.pid; });
  if (exit != exits_.end()) {
    blame(*exit, lost);
    exits_.erase(exit);
    process_ended(lost.worker_key, lost.incarnation);
  } else {
    lost_.push_back(std::move(lost));
    if (lost_.size() > kRememberedDeaths) lost_.pop_front();
  }
  want_placement_ = want_dispatch_ = true;
}

void Machine::on(const WorkerExit& event) {
  for (const auto& [peer, worker] : workers_) {
    if (worker.hello.pid != event.pid) continue;
    exits_.push_back(event);
    const std::string why =
        event.oom ? "out of memory"
                  : (event.signal != 0 ? "signal " + std::to_string(event.signal)
                                       : "exit status " + std::to_string(event.status));
    worker_gone(peer, why);
    return;
  }
  const auto lost =
      std::find_if(lost_.rbegin(), lost_.rend(), [&](const Lost& l) { return l.pid == event.pid; });
  if (lost == lost_.rend()) return;
  blame(event, *lost);
  process_ended(lost->worker_key, lost->incarnation);
  lost_.erase(std::next(lost).base());
}

void Machine::blame(const WorkerExit& exit, const Lost& lost) {
  if (!death_counts(exit)) return;
  const std::string how =
      exit.oom ? std::string("out of memory") : "signal " + std::to_string(exit.signal);
  // A suspect that ran alone is enough of an explanation.
  if (!lost.suspect) {
    count_failure(lost.worker_key, {}, "its process died: " + how);
    for (const std::string& model : lost.models) count_failure({}, model, "a worker died: " + how);
  }
  // The load has used up its try already; how its worker died is what an operator wants to read.
  for (const std::string& name : lost.loading) {
    const auto model = models_.find(name);
    if (model == models_.end()) continue;
    out_->note("a worker died while it loaded a model", {{"model", name}, {"how", how}}, true);
    canary_load_failed(model->second, "its worker died while loading it: " + how);
    if (model->second.row.state != ModelState::kFailed) continue;
    model->second.row.reason += "; its worker died while loading it: " + how;
    put_model(model->second);
  }
  for (const auto& [ref, index] : lost.running) {
    Request* request = requests_.by_seq(ref.seq);
    if (request == nullptr || request->terminal() ||
        request->row.state == RequestState::kQuarantined) {
      continue;
    }
    Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
    if (choice.phase == ChoicePhase::kEnded) continue;
    if (!was_in_step(exit, request->row.id, ref.choice)) continue;
    count_interrupted(*request);
    charge_death(choice, index);
    write_choice(*request, choice, Durability::kNormal);
    if (suspicion(choice, config_) == Suspicion::kQuarantine) quarantine(*request);
  }
}

}  // namespace holdfast::core
