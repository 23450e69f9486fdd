// Permission to get work: breakers of workers and models, and workers that are not believed any
// more.
#include "control/core/machine.h"

namespace holdfast::core {

bool Machine::breakers_allow(const Load& load) const {
  const auto running = static_cast<std::int64_t>(load.running.size());
  const auto worker = breakers_.find(load.row.worker_key);
  if (worker != breakers_.end() && !worker->second.allows(now_.mono_us, running)) return false;
  const auto model = models_.find(load.row.model);
  if (model == models_.end() || !model->second.breaker.tripped()) return true;
  std::int64_t everywhere = 0;
  for (const auto& [id, other] : loads_) {
    if (other.row.model == load.row.model) {
      everywhere += static_cast<std::int64_t>(other.running.size());
    }
  }
  return model->second.breaker.allows(now_.mono_us, everywhere);
}

/// Counts a failure against the worker and against the model. One of the two is to blame; the other
/// is trusted again by its success elsewhere.
void Machine::count_failure(const std::string& worker_key, const std::string& model,
                            const std::string& why) {
  if (!worker_key.empty() && breakers_[worker_key].failed(config_, now_.mono_us)) {
    breaker_opened("worker", worker_key, breakers_[worker_key], why);
  }
  const auto m = models_.find(model);
  if (m != models_.end() && m->second.breaker.failed(config_, now_.mono_us)) {
    breaker_opened("model", model, m->second.breaker, why);
  }
}

void Machine::count_success(const Load& load) {
  const auto worker = breakers_.find(load.row.worker_key);
  if (worker != breakers_.end()) {
    if (worker->second.tripped()) breaker_closed("worker", load.row.worker_key);
    breakers_.erase(worker);
  }
  const auto model = models_.find(load.row.model);
  if (model == models_.end()) return;
  if (model->second.breaker.tripped()) breaker_closed("model", load.row.model);
  model->second.breaker.succeeded();
}

void Machine::breaker_opened(const char* subject, const std::string& key, const Breaker& breaker,
                             const std::string& why) {
  const std::int64_t pause_ms = (breaker.open_until_us() - now_.mono_us) / 1000;
  ++counters_.breakers_opened;
  timers_.add(breaker.open_until_us(), TimerKind::kDispatch);
  timers_.add(breaker.open_until_us(), TimerKind::kPlacement);
  out_->write(
      InsertTransition{subject, key, "breaker closed", "breaker open", now_.wall_ms, 0, 0,
                       std::to_string(breaker.failures()) + " failures in a row, the last: " + why},
      Durability::kNormal);
  out_->note(std::string(subject) + " gets no work for a while: it fails again and again",
             {{subject, key},
              {"failures", std::to_string(breaker.failures())},
              {"pause_ms", std::to_string(pause_ms)},
              {"why", why}},
             true);
}

void Machine::breaker_closed(const char* subject, const std::string& key) {
  out_->write(InsertTransition{subject, key, "breaker open", "breaker closed", now_.wall_ms, 0, 0,
                               "it works again"},
              Durability::kNormal);
  out_->note(std::string(subject) + " works again", {{subject, key}});
  want_dispatch_ = want_placement_ = true;
}

/// Quarantines a worker that may not be believed any more: its work goes elsewhere, it gets no new
/// work until an operator releases it, also as a new process and after a restart of the daemon.
void Machine::quarantine_worker(Worker& worker, const std::string& why) {
  if (worker.quarantined) return;
  const std::string& key = worker.hello.worker_key;
  worker.quarantined = true;
  worker.quarantine_reason = why;
  quarantined_workers_[key] = why;
  out_->write(PutFlag{"quarantine/" + key, why}, Durability::kFull);
  out_->write(InsertTransition{"worker", key, "running", "quarantined", now_.wall_ms, 0, 0, why},
              Durability::kNormal);
  out_->note("worker quarantined; workers resume lets it work again",
             {{"worker", key}, {"why", why}}, true);
  for (const std::string& id : std::set<std::string>(worker.loads)) {
    const auto load = loads_.find(id);
    if (load == loads_.end()) continue;
    for (const ChoiceRef& ref : std::set<ChoiceRef>(load->second.running)) {
      Request* request = requests_.by_seq(ref.seq);
      CHECK(request != nullptr);
      Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
      out_->send(worker.peer, wire::Drop{request->row.id, ref.choice, "worker quarantined"});
      if (choice.phase != ChoicePhase::kRunning) continue;
      requeue(*request, choice, "worker quarantined: " + why);
    }
    const auto model = models_.find(load->second.row.model);
    if (model != models_.end()) refresh_model(model->second, "worker quarantined: " + why);
  }
  want_placement_ = true;
}

void Machine::release_worker(const std::string& key) {
  breakers_.erase(key);
  for (auto& [name, model] : models_) model.failed_on.erase(key);
  if (quarantined_workers_.erase(key) == 0) return;
  out_->write(PutFlag{"quarantine/" + key, ""}, Durability::kFull);
  out_->write(InsertTransition{"worker", key, "quarantined", "running", now_.wall_ms, 0, 0,
                               "resumed by an operator"},
              Durability::kNormal);
  for (auto& [peer, worker] : workers_) {
    if (worker.hello.worker_key != key) continue;
    worker.quarantined = false;
    worker.quarantine_reason.clear();
    for (const std::string& id : worker.loads) {
      const auto load = loads_.find(id);
      const auto model =
          load == loads_.end() ? models_.end() : models_.find(load->second.row.model);
      if (model != models_.end()) refresh_model(model->second, "worker resumed");
    }
  }
}

}  // namespace holdfast::core
