// Operator verbs for requests, workers and the queue.
#include "control/core/machine.h"

namespace holdfast::core {
namespace {

wire::Refusal no_request(const std::string& id) {
  return refuse(Errc::kNotFound, "no request with id " + id);
}

wire::Refusal has_ended(const Request& request, const char* verb) {
  return refuse(Errc::kConflict, std::string(verb) + ": request " + request.row.id +
                                     " has ended (" +
                                     std::string(wire::state_name(request.row.state)) +
                                     "); a terminal state never changes");
}

}  // namespace

void Machine::on(const OpCancel& event) {
  Request* request = requests_.by_id(event.id);
  if (request == nullptr) {
    op_refused(event.peer, event.tag, no_request(event.id));
    return;
  }
  cancel_request(*request);
  op_done(event.peer, event.tag, "requests.cancel", event.id);
}

/// Changes a request's priority. What waits moves at once; what runs, the next time that it waits.
void Machine::on(const OpMove& event) {
  Request* request = requests_.by_id(event.id);
  if (request == nullptr || request->terminal()) {
    op_refused(event.peer, event.tag,
               request == nullptr ? no_request(event.id) : has_ended(*request, "move"));
    return;
  }
  const bool queued = request->row.state != RequestState::kQuarantined;
  std::vector<Choice*> waiting;
  for (Choice& choice : request->choices) {
    if (choice.phase != ChoicePhase::kQueued || !queued) continue;
    dequeue(*request, choice);
    waiting.push_back(&choice);
  }
  request->row.priority = event.priority;
  for (Choice* choice : waiting) enqueue(*request, *choice);
  write_request(*request, Durability::kFull);
  op_done(event.peer, event.tag, "requests.move", event.id);
}

void Machine::on(const OpRequeue& event) {
  Request* request = requests_.by_id(event.id);
  if (request == nullptr || request->terminal()) {
    op_refused(event.peer, event.tag,
               request == nullptr ? no_request(event.id) : has_ended(*request, "requeue"));
    return;
  }
  if (request->row.state == RequestState::kQuarantined) {
    release_from_quarantine(*request);
  } else {
    for (Choice& choice : request->choices) {
      if (choice.phase != ChoicePhase::kRunning) continue;
      out_->send(choice.worker, wire::CancelWork{request->row.id, choice.row.choice, choice.fence});
      requeue(*request, choice, "requeued by an operator");
    }
  }
  op_done(event.peer, event.tag, "requests.requeue", event.id);
}

/// Releases a request with a clean record: an operator has looked at it.
void Machine::release_from_quarantine(Request& request) {
  change(request, RequestChange::kReleased);
  request.row.error_code.clear();
  request.row.error.clear();
  request.failure_counted = false;
  for (Choice& choice : request.choices) {
    if (choice.phase == ChoicePhase::kEnded) continue;
    choice.row.deaths = 0;
    choice.row.deaths_index = -1;
    write_choice(request, choice, Durability::kFull);
    enqueue(request, choice);
  }
  write_request(request, Durability::kFull);
}

void Machine::on(const OpWorker& event) {
  Worker* worker = nullptr;
  for (auto& [peer, candidate] : workers_) {
    if (candidate.hello.worker_key == event.key) worker = &candidate;
  }
  const bool remembered = drained_workers_.count(event.key) > 0 ||
                          quarantined_workers_.count(event.key) > 0 ||
                          breakers_.count(event.key) > 0;
  if (worker == nullptr && (event.drain || !remembered)) {
    op_refused(event.peer, event.tag,
               refuse(Errc::kNotFound, "no worker \"" + event.key + "\" is connected"));
    return;
  }
  if (event.drain) {
    drained_workers_.insert(event.key);
  } else {
    drained_workers_.erase(event.key);
    release_worker(event.key);
  }
  out_->write(PutFlag{"drain/" + event.key, event.drain ? "1" : "0"}, Durability::kFull);
  if (worker != nullptr) {
    worker->draining = event.drain;
    out_->send(worker->peer, wire::Drain{!event.drain});
  }
  want_dispatch_ = want_placement_ = true;
  op_done(event.peer, event.tag, event.drain ? "workers.drain" : "workers.resume", event.key);
}

void Machine::on(const OpPause& event) {
  paused_ = event.paused;
  out_->write(PutFlag{"queue.paused", paused_ ? "1" : "0"}, Durability::kFull);
  want_dispatch_ = want_placement_ = true;
  op_done(event.peer, event.tag, paused_ ? "queue.pause" : "queue.resume", {});
}

void Machine::op_refused(PeerId peer, std::uint64_t tag, wire::Refusal refusal) {
  if (peer == 0) return;
  SendOpResult result;
  result.to = peer;
  result.tag = tag;
  result.refusal = std::move(refusal);
  out_->messages.emplace_back(std::move(result));
}

void Machine::op_done(PeerId peer, std::uint64_t tag, std::string verb, std::string key) {
  if (peer == 0) return;
  SendOpResult result;
  result.to = peer;
  result.tag = tag;
  result.ok = true;
  result.verb = std::move(verb);
  result.key = std::move(key);
  out_->messages.emplace_back(std::move(result));
}

}  // namespace holdfast::core
