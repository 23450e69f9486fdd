// Life of requests and choices: every change of a state goes through change(), every way off a
// worker through end_attempt().
#include "control/core/machine.h"

#include <algorithm>

namespace holdfast::core {

Machine::ClassKey Machine::class_key(const Request& request) {
  return {request.row.model, request.row.numerics_class};
}

void Machine::change(Request& request, RequestChange what) {
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

void Machine::write_request(const Request& request, Durability durability) {
  const RequestRow& row = request.row;
  out_->write(UpdateRequest{row.seq, row.state, row.priority, row.numerics_class, row.started_ms,
                            row.finished_ms, row.error_code, row.error},
              durability);
}

void Machine::write_choice(const Request& request, const Choice& choice, Durability durability) {
  out_->write(UpdateChoice{request.row.seq, choice.row}, durability);
}

bool Machine::waits(const std::string& model) const {
  const auto queue = queues_.find(model);
  return queue != queues_.end() && queue->second.size() > 0;
}

/// Makes the queue's item of a choice. Resumed work has paid for its prompt.
QueueItem Machine::queue_item(const Request& request, const Choice& choice) const {
  QueueItem item;
  item.ref = {request.row.seq, choice.row.choice};
  item.priority = request.row.priority;
  item.resumed = choice.resumed;
  item.tenant = request.row.tenant;
  item.pages = pages_at_most(request, choice);
  item.weight = config_.tenant(request.row.tenant).weight;
  item.numerics_class = request.row.numerics_class;
  item.cost = request.row.max_tokens - choice.row.next_index;
  if (!choice.resumed) {
    item.cost += request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)];
  }
  return item;
}

void Machine::enqueue(Request& request, Choice& choice) {
  choice.phase = ChoicePhase::kQueued;
  queues_[request.row.model].push(queue_item(request, choice));
  if (!request.row.numerics_class.empty()) {
    request.class_deadline_us = now_.mono_us + config_.requests_class_wait_ms * 1000;
    timers_.add(request.class_deadline_us, TimerKind::kRequest, request.row.seq);
  }
  const auto model = models_.find(request.row.model);
  if (model != models_.end()) want(model->second);
  want_dispatch_ = true;
}

void Machine::dequeue(Request& request, Choice& choice) {
  const auto queue = queues_.find(request.row.model);
  if (queue == queues_.end()) return;
  queue->second.remove({request.row.seq, choice.row.choice});
  if (queue->second.size() > 0) return;
  if (queue->second.idle()) queues_.erase(queue);
  want_placement_ = true;
}

/// Takes a running choice off its load: its slot and pages are free again.
void Machine::leave_worker(Choice& choice, ChoiceRef ref) {
  const auto it = loads_.find(choice.load_id);
  if (it == loads_.end()) return;
  Load& load = it->second;
  if (load.running.erase(ref) == 0) return;
  load.pages_used -= choice.pages;
  choice.pages = 0;
  if (load.running.empty()) {
    load.alone = false;
    want_placement_ = true;  // idle now: it may have to make room for a model that waits
  }
  drain_step(load);
  want_dispatch_ = true;
}

/// Counts a choice as running, for the bounds of its tenant, model and worker.
void Machine::count_running(Request& request, Choice& choice) {
  choice.pages_at_most = pages_at_most(request, choice);
  ++request.running;
  requests_.usage().count_running(request.row, choice.worker_key, choice.pages_at_most, 1);
  queues_[request.row.model].run(queue_item(request, choice));
}

void Machine::stop_counting(Request& request, Choice& choice) {
  --request.running;
  CHECK(request.running >= 0);
  requests_.usage().count_running(request.row, choice.worker_key, choice.pages_at_most, -1);
  const auto queue = queues_.find(request.row.model);
  CHECK(queue != queues_.end());
  queue->second.end({request.row.seq, choice.row.choice},
                    request.row.max_tokens - choice.row.next_index);
  if (queue->second.idle()) queues_.erase(queue);
}

void Machine::end_attempt(Request& request, Choice& choice, const std::string& reason) {
  CHECK(choice.phase == ChoicePhase::kRunning || choice.phase == ChoicePhase::kAdopting);
  out_->write(EndAttempt{request.row.seq, choice.row.choice, choice.fence, now_.wall_ms,
                         choice.row.next_index, reason},
              Durability::kNormal);
  leave_worker(choice, {request.row.seq, choice.row.choice});
  stop_counting(request, choice);
}

/// Puts a choice back into the queue as resumed work. Its old fence is worth nothing from here on:
/// the choice is not running, and the next attempt gets a new one.
void Machine::requeue(Request& request, Choice& choice, const std::string& reason) {
  end_attempt(request, choice, reason);
  choice.phase = ChoicePhase::kQueued;
  choice.resumed = true;
  ++counters_.requeued;
  // The limit may have become stricter while it ran.
  if (suspicion(choice, config_) == Suspicion::kQuarantine) {
    quarantine(request);
    return;
  }
  enqueue(request, choice);
  if (request.running == 0 && request.row.state == RequestState::kRunning) {
    change(request, RequestChange::kRequeued);
    write_request(request, Durability::kNormal);
  }
}

void Machine::quarantine(Request& request) {
  for (Choice& choice : request.choices) {
    if (choice.phase == ChoicePhase::kRunning) {
      out_->send(choice.worker, wire::CancelWork{request.row.id, choice.row.choice, choice.fence});
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
  count_quarantined(request);
  request.failure_counted = true;
  write_request(request, Durability::kFull);
  out_->note("request quarantined", {{"request", request.row.id}}, true);
}

void Machine::finish_choice(Request& request, Choice& choice, FinishReason finish,
                            const std::string& code, const std::string& error) {
  CHECK(choice.phase != ChoicePhase::kEnded);
  if (choice.phase == ChoicePhase::kQueued) {
    dequeue(request, choice);
  } else {
    const auto model = models_.find(request.row.model);
    if (model != models_.end() && choice.started_us != 0) {
      const double took_ms = static_cast<double>(now_.mono_us - choice.started_us) / 1000;
      double& mean = model->second.service_ms;
      mean = mean == 0 ? took_ms : mean + (took_ms - mean) / 16;
    }
    end_attempt(request, choice, std::string(wire::finish_name(finish)));
  }
  const bool whole = finish == FinishReason::kStop || finish == FinishReason::kLength;
  if (whole && choice.first_token_us != 0) {
    stats_.model(request.row.model).decode.add(choice.last_token_us - choice.first_token_us);
  }
  choice.phase = ChoicePhase::kEnded;
  choice.row.finish = finish;
  choice.row.error_code = code;
  choice.row.error = error;
  write_choice(request, choice, Durability::kFull);
}

void Machine::record_end_stats(const Request& request, RequestChange what) {
  ModelStats& stats = stats_.model(request.row.model);
  stats_.ended.add(now_.mono_us, 1);
  for (const Choice& choice : request.choices) {
    ++stats.finished.at(static_cast<std::size_t>(choice.row.finish));
  }
  switch (what) {
    case RequestChange::kSucceeded:
      ++counters_.succeeded;
      ++stats.ended[ModelStats::kSucceeded];
      stats.end_to_end.add(now_.mono_us - request.submitted_us);
      break;
    case RequestChange::kFailed:
      ++counters_.failed;
      ++stats.ended[ModelStats::kFailed];
      break;
    case RequestChange::kCancelled:
      ++counters_.cancelled;
      ++stats.ended[ModelStats::kCancelled];
      break;
    case RequestChange::kExpired:
      ++counters_.expired;
      ++stats.ended[ModelStats::kExpired];
      break;
    default:
      CHECK_MSG(false, "a request ends in one of four ways");
  }
}

void Machine::finish_request_if_done(Request& request) {
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
  request.row.finished_ms = now_.wall_ms;
  write_request(request, Durability::kFull);
  record_end_stats(request, what);
  count_end(request, what);
  pump_request(request);
  for (Choice& choice : request.choices) {
    choice.ids.clear();
    choice.ids.shrink_to_fit();
  }
  requests_.ended(request);
  keys_.ended(request.row.api_key);
}

/// Ends every open choice the same way: cancel, expiry, failure of the whole.
void Machine::end_request(Request& request, FinishReason finish, const std::string& code,
                          const std::string& error, bool tell_worker) {
  if (request.terminal()) return;
  for (Choice& choice : request.choices) {
    if (choice.phase == ChoicePhase::kEnded) continue;
    if (tell_worker && choice.phase == ChoicePhase::kRunning) {
      out_->send(choice.worker, wire::CancelWork{request.row.id, choice.row.choice, choice.fence});
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

}  // namespace holdfast::core
