// Life of requests and choices: every change of a state goes through change(), every way off a
// worker through end_attempt().
#include "control/core/lifecycle.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/core/blame.h"
#include "control/core/canaries.h"
#include "control/core/client_streams.h"
#include "control/core/loads.h"
#include "control/core/registry.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kHourMs = 3'600'000;

}  // namespace

void Lifecycle::change(Request& request, RequestChange what) {
  const std::optional<std::size_t> transition = find_transition(request.row.state, what);
  CHECK_MSG(transition.has_value(), "a change of state that the table does not have");
  ++transition_counts_[*transition];
  const RequestState to = request_transitions()[*transition].to;
  UsageTracker& usage = requests_.usage();
  if (request.row.state == RequestState::kQueued) usage.count_waiting(request.row, -1);
  if (to == RequestState::kQueued) usage.count_waiting(request.row, 1);
  quarantined_ +=
      (to == RequestState::kQuarantined) - (request.row.state == RequestState::kQuarantined);
  request.row.state = to;
}

void Lifecycle::write_request(const Request& request, Durability durability) {
  const RequestRow& row = request.row;
  core_.out->write(UpdateRequest{row.seq, row.state, row.priority, row.numerics_class,
                                 row.started_ms, row.finished_ms, row.error_code, row.error},
                   durability);
}

void Lifecycle::write_choice(const Request& request, const Choice& choice, Durability durability) {
  core_.out->write(UpdateChoice{request.row.seq, choice.row}, durability);
}

bool Lifecycle::waits(const std::string& model) const {
  const auto queue = queues_.find(model);
  return queue != queues_.end() && queue->second.size() > 0;
}

/// Makes the queue's item of a choice. Resumed work has paid for its prompt.
QueueItem Lifecycle::queue_item(const Request& request, const Choice& choice) const {
  QueueItem item;
  item.ref = {request.row.seq, choice.row.choice};
  item.priority = request.row.priority;
  item.resumed = choice.resumed;
  item.tenant = request.row.tenant;
  item.pages = pages_at_most(request, choice);
  item.weight = core_.config.tenant(request.row.tenant).weight;
  item.numerics_class = request.row.numerics_class;
  item.cost = request.row.max_tokens - choice.row.next_index;
  if (!choice.resumed) {
    item.cost += request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)];
  }
  return item;
}

void Lifecycle::enqueue(Request& request, Choice& choice) {
  choice.phase = ChoicePhase::kQueued;
  queues_[request.row.model].push(queue_item(request, choice));
  if (!request.row.numerics_class.empty()) {
    request.class_deadline_us = core_.now.mono_us + core_.config.requests_class_wait_ms * 1000;
    core_.timers.add(request.class_deadline_us, TimerKind::kRequest, request.row.seq);
    core_.want_placement = true;  // a worker for bound requests alone may be for this one
  }
  const auto model = registry_.models().find(request.row.model);
  if (model != registry_.models().end()) registry_.want(model->second);
  core_.dispatch_models.insert(request.row.model);
}

void Lifecycle::dequeue(Request& request, Choice& choice) {
  const auto queue = queues_.find(request.row.model);
  if (queue == queues_.end()) return;
  queue->second.remove({request.row.seq, choice.row.choice});
  if (queue->second.size() > 0) return;
  if (queue->second.idle()) queues_.erase(queue);
  core_.usage_changed.insert(request.row.model);
}

void Lifecycle::count_running(Request& request, Choice& choice) {
  choice.pages_at_most = pages_at_most(request, choice);
  ++request.running;
  requests_.usage().count_running(request.row, choice.worker_key, choice.pages_at_most, 1);
  queues_[request.row.model].run(queue_item(request, choice));
}

void Lifecycle::stop_counting(Request& request, Choice& choice) {
  --request.running;
  CHECK(request.running >= 0);
  requests_.usage().count_running(request.row, choice.worker_key, choice.pages_at_most, -1);
  const auto queue = queues_.find(request.row.model);
  CHECK(queue != queues_.end());
  queue->second.end({request.row.seq, choice.row.choice},
                    request.row.max_tokens - choice.row.next_index);
  if (queue->second.idle()) queues_.erase(queue);
}

void Lifecycle::end_attempt(Request& request, Choice& choice, const std::string& reason) {
  CHECK(choice.phase == ChoicePhase::kRunning || choice.phase == ChoicePhase::kAdopting);
  core_.out->write(EndAttempt{request.row.seq, choice.row.choice, choice.fence, core_.now.wall_ms,
                              choice.row.next_index, reason},
                   Durability::kNormal);
  loads_.leave_worker(choice, {request.row.seq, choice.row.choice});
  stop_counting(request, choice);
}

void Lifecycle::requeue(Request& request, Choice& choice, const std::string& reason) {
  end_attempt(request, choice, reason);
  choice.phase = ChoicePhase::kQueued;
  choice.resumed = true;
  ++core_.counters.requeued;
  // The limit may have become stricter while it ran.
  if (suspicion(choice, core_.config) == Suspicion::kQuarantine) {
    quarantine(request);
    return;
  }
  enqueue(request, choice);
  if (request.running == 0 && request.row.state == RequestState::kRunning) {
    change(request, RequestChange::kRequeued);
    write_request(request, Durability::kNormal);
  }
}

void Lifecycle::quarantine(Request& request) {
  for (Choice& choice : request.choices) {
    if (choice.phase == ChoicePhase::kRunning) {
      core_.out->send(choice.worker,
                      wire::CancelWork{request.row.id, choice.row.choice, choice.fence});
    }
    if (choice.phase == ChoicePhase::kRunning || choice.phase == ChoicePhase::kAdopting) {
      end_attempt(request, choice, "quarantined");
      choice.phase = ChoicePhase::kQueued;
    } else if (choice.phase == ChoicePhase::kQueued) {
      dequeue(request, choice);
    }
  }
  change(request, RequestChange::kQuarantined);
  request.row.error_code = std::string(errc_name(Errc::kQuarantined));
  request.row.error = "workers died each time that they ran it";
  canaries_.count_quarantined(request);
  request.failure_counted = true;
  write_request(request, Durability::kFull);
  core_.out->note("request quarantined", {{"request", request.row.id}}, true);
}

void Lifecycle::finish_choice(Request& request, Choice& choice, FinishReason finish,
                              const std::string& code, const std::string& error) {
  CHECK(choice.phase != ChoicePhase::kEnded);
  if (choice.phase == ChoicePhase::kQueued) {
    dequeue(request, choice);
  } else {
    const auto model = registry_.models().find(request.row.model);
    if (model != registry_.models().end() && choice.started_us != 0) {
      const double took_ms = static_cast<double>(core_.now.mono_us - choice.started_us) / 1000;
      double& mean = model->second.service_ms;
      mean = mean == 0 ? took_ms : mean + (took_ms - mean) / 16;
    }
    end_attempt(request, choice, std::string(wire::finish_name(finish)));
  }
  const bool whole = finish == FinishReason::kStop || finish == FinishReason::kLength;
  if (whole && choice.first_token_us != 0) {
    core_.stats.model(request.row.model).decode.add(choice.last_token_us - choice.first_token_us);
  }
  choice.phase = ChoicePhase::kEnded;
  choice.row.finish = finish;
  choice.row.error_code = code;
  choice.row.error = error;
  write_choice(request, choice, Durability::kFull);
}

void Lifecycle::record_end_stats(const Request& request, RequestChange what) {
  ModelStats& stats = core_.stats.model(request.row.model);
  core_.stats.ended.add(core_.now.mono_us, 1);
  for (const Choice& choice : request.choices) {
    ++stats.finished.at(static_cast<std::size_t>(choice.row.finish));
  }
  switch (what) {
    case RequestChange::kSucceeded:
      ++core_.counters.succeeded;
      ++stats.ended[ModelStats::kSucceeded];
      stats.end_to_end.add(core_.now.mono_us - request.submitted_us);
      break;
    case RequestChange::kFailed:
      ++core_.counters.failed;
      ++stats.ended[ModelStats::kFailed];
      break;
    case RequestChange::kCancelled:
      ++core_.counters.cancelled;
      ++stats.ended[ModelStats::kCancelled];
      break;
    case RequestChange::kExpired:
      ++core_.counters.expired;
      ++stats.ended[ModelStats::kExpired];
      break;
    default:
      CHECK_MSG(false, "a request ends in one of four ways");
  }
}

void Lifecycle::finish_request_if_done(Request& request) {
  if (request.open_choices() > 0) {
    // Its other choices may all be waiting.
    if (request.running == 0 && request.row.state == RequestState::kRunning) {
      change(request, RequestChange::kRequeued);
      write_request(request, Durability::kNormal);
    }
    return;
  }
  // Without choices: their rows could not be read.
  RequestChange what = request.choices.empty() ? RequestChange::kFailed : RequestChange::kSucceeded;
  for (const Choice& choice : request.choices) {
    if (choice.row.finish == FinishReason::kError) {
      what = RequestChange::kFailed;
      request.row.error_code = choice.row.error_code;
      request.row.error = choice.row.error;
      break;
    }
    if (choice.row.finish == FinishReason::kCancelled) what = RequestChange::kCancelled;
    if (choice.row.finish == FinishReason::kExpired) what = RequestChange::kExpired;
  }
  change(request, what);
  request.row.finished_ms = core_.now.wall_ms;
  write_request(request, Durability::kFull);
  record_end_stats(request, what);
  canaries_.count_end(request, what);
  streams_.pump_request(request);
  for (Choice& choice : request.choices) {
    choice.ids.clear();
    choice.ids.shrink_to_fit();
  }
  requests_.ended(request);
  keys_.ended(request.row.api_key);
}

void Lifecycle::end_request(Request& request, FinishReason finish, const std::string& code,
                            const std::string& error, bool tell_worker) {
  if (request.terminal()) return;
  for (Choice& choice : request.choices) {
    if (choice.phase == ChoicePhase::kEnded) continue;
    if (tell_worker && choice.phase == ChoicePhase::kRunning) {
      core_.out->send(choice.worker,
                      wire::CancelWork{request.row.id, choice.row.choice, choice.fence});
    }
    finish_choice(request, choice, finish, finish == FinishReason::kError ? code : std::string(),
                  finish == FinishReason::kError ? error : std::string());
  }
  if (request.row.error.empty() && !error.empty()) {
    request.row.error_code = code;
    request.row.error = error;
  }
  finish_request_if_done(request);
}

void Lifecycle::cancel_request(Request& request) {
  end_request(request, FinishReason::kCancelled, std::string(errc_name(Errc::kCancelled)),
              "cancelled", true);
}

void Lifecycle::fail_waiting(const Model& model) {
  std::vector<Seq> waiting;
  for (const auto& [seq, request] : requests_.all()) {
    if (!request.terminal() && request.row.model == model.row.name &&
        request.row.state != RequestState::kQuarantined) {
      waiting.push_back(seq);
    }
  }
  for (const Seq seq : waiting) {
    Request* request = requests_.by_seq(seq);
    if (request == nullptr) continue;
    end_request(*request, FinishReason::kError, std::string(errc_name(Errc::kModelFailed)),
                "model \"" + model.row.name + "\" failed: " + model.row.reason, true);
  }
}

void Lifecycle::set_model_of(Request& request, const ModelRow& model) {
  UsageTracker& usage = requests_.usage();
  const bool queued = request.row.state == RequestState::kQueued;
  usage.count_request(request.row, request.payload_bytes, -1);
  if (queued) usage.count_waiting(request.row, -1);
  request.row.rerouted_from = request.row.model;
  request.row.model = model.name;
  request.row.model_sha = model.sha;
  request.row.canary = 0;
  usage.count_request(request.row, request.payload_bytes, 1);
  if (queued) usage.count_waiting(request.row, 1);
}

void Lifecycle::on(const Sweep& event) {
  const bool crowded = event.used_bytes > core_.config.retention_max_bytes;
  std::int64_t retention_ms = crowded ? 0 : core_.config.retention_hours * kHourMs;
  if (retention_ms == 0 && !crowded) return;
  retention_ms = std::max(retention_ms, core_.config.retention_key_hours * kHourMs);
  for (const Sweep::Row& row : event.rows) {
    // A wall clock that was set back makes requests look younger: they stay longer, which does no
    // harm.
    if (row.finished_ms == 0 || core_.now.wall_ms - row.finished_ms < retention_ms) continue;
    if (!requests_.retire(row.seq)) continue;
    ++core_.counters.retired;
    core_.out->write(DeleteRequest{row.seq}, Durability::kNormal);
  }
}

Request& Lifecycle::insert(Request request) {
  Request& in = *requests_.insert(std::move(request));
  quarantined_ += in.row.state == RequestState::kQuarantined;
  return in;
}

}  // namespace holdfast::core
