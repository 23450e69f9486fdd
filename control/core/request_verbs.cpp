// Operator verbs for requests and the queue.
#include "control/core/request_verbs.h"

#include <string>
#include <vector>

#include "control/core/admission.h"
#include "control/core/lifecycle.h"

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

void RequestVerbs::on(const OpCancel& event) {
  Request* request = lifecycle_.requests().by_id(event.id);
  if (request == nullptr) {
    core_.op_refused(event.peer, event.tag, no_request(event.id));
    return;
  }
  lifecycle_.cancel_request(*request);
  core_.op_done(event.peer, event.tag, "requests.cancel", event.id);
}

void RequestVerbs::on(const OpMove& event) {
  Request* request = lifecycle_.requests().by_id(event.id);
  if (request == nullptr || request->terminal()) {
    core_.op_refused(event.peer, event.tag,
                     request == nullptr ? no_request(event.id) : has_ended(*request, "move"));
    return;
  }
  const bool queued = request->row.state != RequestState::kQuarantined;
  std::vector<Choice*> waiting;
  for (Choice& choice : request->choices) {
    if (choice.phase != ChoicePhase::kQueued || !queued) continue;
    lifecycle_.dequeue(*request, choice);
    waiting.push_back(&choice);
  }
  request->row.priority = event.priority;
  for (Choice* choice : waiting) lifecycle_.enqueue(*request, *choice);
  lifecycle_.write_request(*request, Durability::kFull);
  core_.op_done(event.peer, event.tag, "requests.move", event.id);
}

void RequestVerbs::on(const OpRequeue& event) {
  Request* request = lifecycle_.requests().by_id(event.id);
  if (request == nullptr || request->terminal()) {
    core_.op_refused(event.peer, event.tag,
                     request == nullptr ? no_request(event.id) : has_ended(*request, "requeue"));
    return;
  }
  if (request->row.state == RequestState::kQuarantined) {
    release_from_quarantine(*request);
  } else {
    for (Choice& choice : request->choices) {
      if (choice.phase != ChoicePhase::kRunning) continue;
      core_.out->send(choice.worker,
                      wire::CancelWork{request->row.id, choice.row.choice, choice.fence});
      lifecycle_.requeue(*request, choice, "requeued by an operator");
    }
  }
  core_.op_done(event.peer, event.tag, "requests.requeue", event.id);
}

/// Releases a request with a clean record: an operator has looked at it.
void RequestVerbs::release_from_quarantine(Request& request) {
  lifecycle_.change(request, RequestChange::kReleased);
  request.row.error_code.clear();
  request.row.error.clear();
  request.failure_counted = false;
  for (Choice& choice : request.choices) {
    if (choice.phase == ChoicePhase::kEnded) continue;
    choice.row.deaths = 0;
    choice.row.deaths_index = -1;
    lifecycle_.write_choice(request, choice, Durability::kFull);
    lifecycle_.enqueue(request, choice);
  }
  lifecycle_.write_request(request, Durability::kFull);
}

void RequestVerbs::on(const OpPause& event) {
  core_.paused = event.paused;
  core_.out->write(PutFlag{"queue.paused", core_.paused ? "1" : "0"}, Durability::kFull);
  core_.want_dispatch = core_.want_placement = true;
  core_.op_done(event.peer, event.tag, core_.paused ? "queue.pause" : "queue.resume", {});
}

}  // namespace holdfast::core
