// Adoption: what a worker says that it holds and runs is compared with what the daemon knows.
#include <set>
#include <string>
#include <vector>

#include "control/core/blame.h"
#include "control/core/fleet.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/memory_pools.h"
#include "control/core/registry.h"

namespace holdfast::core {

namespace {

/// True if what a worker holds is this load, which has no worker now.
bool is_the_same(const Load& load, const wire::Hello& hello, const wire::LoadedModel& held) {
  return load.worker == 0 && load.row.worker_key == hello.worker_key &&
         load.row.model_sha == held.model_sha;
}

}  // namespace

/// Compares what the worker holds with what the database says: the database decides.
void Fleet::reconcile_loads(Worker& worker, const wire::Hello& hello) {
  std::set<std::string> reported;
  for (const wire::LoadedModel& model : hello.models) {
    reported.insert(model.load_id);
    const auto it = loads_.all().find(model.load_id);
    if (it == loads_.all().end() || !is_the_same(it->second, hello, model)) {
      core_.out->send(worker.peer, wire::Unload{model.load_id});
      memory_.record_remains_of(worker, model);
      continue;
    }
    loads_.all().set_pools(it->second, pool_keys(worker));
    it->second.worker = worker.peer;
    it->second.row.incarnation = hello.incarnation;
    it->second.only_class = hello.only_class;
    worker.loads.insert(model.load_id);
    loads_.worker_message(worker.peer, wire::StateReport{model});
  }
  std::vector<std::string> missing;
  for (const Load* load : loads_.all().of_worker(hello.worker_key)) {
    if (reported.count(load->row.load_id) == 0) missing.push_back(load->row.load_id);
  }
  memory_.drop_remains([&](const Remains& left) {
    return left.row.worker_key == hello.worker_key && reported.count(left.row.load_id) == 0;
  });
  for (const std::string& id : missing) {
    const auto found = loads_.all().find(id);
    if (found == loads_.all().end()) continue;
    Load& load = found->second;
    if (load.row.state == ModelState::kReady || load.row.state == ModelState::kDraining) {
      loads_.end_load(id, ModelState::kUnloaded, "the worker does not hold it any more");
    } else {
      const std::string name = load.row.model;
      loads_.load_lost(load, "the worker knows nothing of it any more");
      if (const auto model = registry_.models().find(name); model != registry_.models().end()) {
        registry_.count_load_failure(model->second, hello.worker_key,
                                     "its worker knows nothing of it", true);
      }
    }
  }
}

void Fleet::adopt(Worker& worker, const wire::Hello& hello) {
  std::set<ChoiceRef> listed;
  for (const wire::ActiveItem& item : hello.active) {
    if (adopt_item(worker, item)) {
      listed.insert({lifecycle_.requests().by_id(item.request_id)->row.seq, item.choice});
    } else {
      core_.out->send(worker.peer, wire::Drop{item.request_id, item.choice, "not wanted any more"});
    }
  }
  // Choices that this worker was given and does not list never arrived, or died with its last
  // process.
  for (auto& [seq, request] : lifecycle_.requests().all()) {
    if (request.running == 0) continue;
    for (Choice& choice : request.choices) {
      if (choice.phase == ChoicePhase::kAdopting && choice.worker_key == hello.worker_key &&
          listed.count({seq, choice.row.choice}) == 0) {
        lifecycle_.requeue(request, choice, "not listed by its worker");
      }
    }
  }
}

/// Adopts a choice that the worker still runs. Only its current fence allows that; the choice goes
/// on under a new one.
bool Fleet::adopt_item(Worker& worker, const wire::ActiveItem& item) {
  Request* request = lifecycle_.requests().by_id(item.request_id);
  if (request == nullptr || item.choice < 0 ||
      static_cast<std::size_t>(item.choice) >= request->choices.size()) {
    return false;
  }
  Choice& choice = request->choices[static_cast<std::size_t>(item.choice)];
  const auto load = loads_.all().find(choice.load_id);
  const std::string& numerics = request->row.numerics_class;
  if (choice.phase != ChoicePhase::kAdopting || choice.fence != item.fence ||
      choice.worker_key != worker.hello.worker_key ||
      choice.incarnation != worker.hello.incarnation || load == loads_.all().end() ||
      load->second.worker != worker.peer || item.first_unacked > choice.row.next_index ||
      !(numerics.empty() || numerics == load->second.row.numerics_class)) {
    return false;
  }
  core_.out->write(EndAttempt{request->row.seq, choice.row.choice, choice.fence, core_.now.wall_ms,
                              choice.row.next_index, "adopted"},
                   Durability::kNormal);
  choice.fence = core_.fences.next();
  choice.phase = ChoicePhase::kRunning;
  choice.worker = worker.peer;
  choice.started_us = 0;  // its time on the worker is not known any more
  const std::int64_t tokens =
      request->prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] + choice.row.next_index;
  choice.pages = pages_for(tokens + 1, load->second.row.page_tokens);
  load->second.pages_used += choice.pages;
  loads_.all().begin_run(load->second, {request->row.seq, choice.row.choice});
  load->second.alone = suspicion(choice, core_.config) != Suspicion::kNone;
  ++core_.counters.adopted;
  if (request->row.state == RequestState::kQueued) {
    lifecycle_.change(*request, RequestChange::kDispatched);
    lifecycle_.write_request(*request, Durability::kNormal);
  }
  core_.out->write(BeginAttempt{request->row.seq, choice.row.choice, choice.fence,
                                choice.worker_key, choice.incarnation, choice.load_id,
                                choice.row.next_index, true, core_.now.wall_ms},
                   Durability::kNormal);
  core_.out->send(worker.peer,
                  wire::Adopt{item.request_id, item.choice, choice.fence, choice.row.next_index});
  return true;
}

void Fleet::end_adoption() {
  for (auto& [seq, request] : lifecycle_.requests().all()) {
    for (Choice& choice : request.choices) {
      if (choice.phase != ChoicePhase::kAdopting) continue;
      lifecycle_.requeue(request, choice, "not adopted");
    }
  }
  for (auto it = loads_.all().begin(); it != loads_.all().end();) {
    const std::string id = (it++)->first;
    // A load whose worker came and went since the start has its own time to come back.
    const Load& load = loads_.all().at(id);
    if (load.worker != 0 || load.deadline_us > core_.now.mono_us) continue;
    memory_.leave_remains(load, true);
    loads_.end_load(id, ModelState::kUnloaded, "its worker is gone");
  }
  core_.want_placement = true;
}

}  // namespace holdfast::core
