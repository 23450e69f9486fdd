// Workers that get no work: quarantined ones, and those that an operator drains.
#include <set>
#include <string>

#include "control/core/admission.h"
#include "control/core/breakers.h"
#include "control/core/fleet.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/nodes.h"
#include "control/core/registry.h"

namespace holdfast::core {

void Fleet::quarantine_worker(Worker& worker, const std::string& why) {
  if (worker.quarantined) return;
  const std::string& key = worker.hello.worker_key;
  worker.quarantined = true;
  worker.quarantine_reason = why;
  quarantined_workers_[key] = why;
  core_.out->write(PutFlag{"quarantine/" + key, why}, Durability::kFull);
  core_.out->write(
      InsertTransition{"worker", key, "running", "quarantined", core_.now.wall_ms, 0, 0, why},
      Durability::kNormal);
  core_.out->note("worker quarantined; workers resume lets it work again",
                  {{"worker", key}, {"why", why}}, true);
  for (const std::string& id : std::set<std::string>(worker.loads)) {
    const auto load = loads_.all().find(id);
    if (load == loads_.all().end()) continue;
    for (const ChoiceRef& ref : std::set<ChoiceRef>(load->second.running)) {
      Request* request = lifecycle_.requests().by_seq(ref.seq);
      CHECK(request != nullptr);
      Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
      core_.out->send(worker.peer, wire::Drop{request->row.id, ref.choice, "worker quarantined"});
      if (choice.phase != ChoicePhase::kRunning) continue;
      lifecycle_.requeue(*request, choice, "worker quarantined: " + why);
    }
    const auto model = registry_.models().find(load->second.row.model);
    if (model != registry_.models().end())
      registry_.refresh_model(model->second, "worker quarantined: " + why);
  }
  core_.want_placement = true;
}

void Fleet::release_worker(const std::string& key) {
  breakers_.forget(key);
  for (auto& [name, model] : registry_.models()) model.failed_on.erase(key);
  if (quarantined_workers_.erase(key) == 0) return;
  core_.out->write(PutFlag{"quarantine/" + key, ""}, Durability::kFull);
  core_.out->write(InsertTransition{"worker", key, "quarantined", "running", core_.now.wall_ms, 0,
                                    0, "resumed by an operator"},
                   Durability::kNormal);
  for (auto& [peer, worker] : workers_) {
    if (worker.hello.worker_key != key) continue;
    worker.quarantined = false;
    worker.quarantine_reason.clear();
    for (const std::string& id : worker.loads) {
      const auto load = loads_.all().find(id);
      const auto model = load == loads_.all().end()
                             ? registry_.models().end()
                             : registry_.models().find(load->second.row.model);
      if (model != registry_.models().end())
        registry_.refresh_model(model->second, "worker resumed");
    }
  }
}

void Fleet::apply_node_drain(const std::string& node, bool drain) {
  for (auto& [peer, worker] : workers_) {
    const std::string& key = worker.hello.worker_key;
    if (node_of(key) != node) continue;
    const bool draining = drain || drained_workers_.count(key) > 0;
    if (worker.draining == draining) continue;
    worker.draining = draining;
    core_.out->send(worker.peer, wire::Drain{!draining});
    core_.want_dispatch = core_.want_placement = true;
  }
}

void Fleet::on(const OpWorker& event) {
  Worker* worker = nullptr;
  for (auto& [peer, candidate] : workers_) {
    if (candidate.hello.worker_key == event.key) worker = &candidate;
  }
  const bool remembered = drained_workers_.count(event.key) > 0 ||
                          quarantined_workers_.count(event.key) > 0 || breakers_.has(event.key);
  if (worker == nullptr && (event.drain || !remembered)) {
    core_.op_refused(event.peer, event.tag,
                     refuse(Errc::kNotFound, "no worker \"" + event.key + "\" is connected"));
    return;
  }
  if (event.drain) {
    drained_workers_.insert(event.key);
  } else {
    drained_workers_.erase(event.key);
    release_worker(event.key);
  }
  core_.out->write(PutFlag{"drain/" + event.key, event.drain ? "1" : "0"}, Durability::kFull);
  if (worker != nullptr) {
    worker->draining = event.drain || nodes_.is_draining(event.key);
    core_.out->send(worker->peer, wire::Drain{!worker->draining});
  }
  core_.want_dispatch = core_.want_placement = true;
  core_.op_done(event.peer, event.tag, event.drain ? "workers.drain" : "workers.resume", event.key);
}

}  // namespace holdfast::core
