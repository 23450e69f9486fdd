// Results of workers. A token counts only under the current fence and at the next index.
#include <algorithm>

#include "control/core/machine.h"
#include "shared/wire/cached_tokens.h"

namespace holdfast::core {
void Machine::on(const FromWorker& event) {
  if (!std::holds_alternative<wire::Hello>(event.message) && workers_.count(event.peer) == 0) {
    ask_to_greet(event.peer);
    return;  // a connection that has not said HELLO, or was given up or replaced by a newer one
  }
  std::visit([&](const auto& m) { worker_message(event.peer, m); }, event.message);
}

void Machine::worker_message(PeerId peer, const wire::Tokens& m) {
  wire::Ack ack;
  for (const wire::TokenEvent& event : m.events) {
    // A violation in one event ends the worker's right to be believed in the next.
    const auto worker = workers_.find(peer);
    if (worker == workers_.end()) return;
    token_event(worker->second, event, ack);
  }
  if (!ack.items.empty()) out_->send(peer, std::move(ack));
}

void Machine::token_event(Worker& worker, const wire::TokenEvent& event, wire::Ack& ack) {
  Request* request = requests_.by_id(event.request_id);
  const bool found = request != nullptr && event.choice >= 0 &&
                     static_cast<std::size_t>(event.choice) < request->choices.size();
  const auto drop = [&](const std::string& reason) {
    ++counters_.stale_events;
    out_->send(worker.peer, wire::Drop{event.request_id, event.choice, reason});
  };
  if (!found) return drop("unknown request");
  Choice& choice = request->choices[static_cast<std::size_t>(event.choice)];
  const bool mine = choice.phase == ChoicePhase::kRunning && choice.worker == worker.peer;
  if (choice.fence != event.fence) {
    // DROP names no fence: it must not reach a newer attempt on the same worker, whose ADOPT or
    // DISPATCH is on its way.
    if (mine) {
      ++counters_.stale_events;
      return;
    }
    return drop("stale fence");
  }
  if (choice.phase == ChoicePhase::kEnded) {
    // Our ACK was lost, or a cancel met the last token. Either way the worker may forget it.
    ack.items.push_back({event.request_id, event.choice, event.fence, choice.row.next_index, true});
    ++counters_.duplicate_tokens;
    return;
  }
  if (!mine) return drop("not running here");
  if (event.start < 0 || event.start > choice.row.next_index) {
    out_->note("gap in tokens",
               {{"request", request->row.id},
                {"start", std::to_string(event.start)},
                {"expected", std::to_string(choice.row.next_index)}},
               true);
    drop("gap");
    requeue(*request, choice, "gap in tokens");
    return;
  }
  if (!same_as_stored(*request, choice, event)) {
    determinism_violation(worker, *request, choice, event);
    return;
  }
  const std::int64_t skip = std::min<std::int64_t>(choice.row.next_index - event.start,
                                                   static_cast<std::int64_t>(event.ids.size()));
  counters_.duplicate_tokens += static_cast<std::uint64_t>(skip);
  const Fence fence = choice.fence;
  if (event.cached_tokens) count_cached(*request, choice, *event.cached_tokens);
  commit_tokens(*request, choice, event, skip);
  ack.items.push_back({event.request_id, event.choice, fence, choice.row.next_index,
                       choice.phase == ChoicePhase::kEnded});
}

bool Machine::same_as_stored(const Request&, const Choice& choice,
                             const wire::TokenEvent& event) const {
  const auto committed = static_cast<std::int64_t>(choice.ids.size());
  for (std::size_t i = 0; i < event.ids.size(); ++i) {
    const std::int64_t index = event.start + static_cast<std::int64_t>(i);
    if (index >= committed) return true;
    if (choice.ids[static_cast<std::size_t>(index)] != event.ids[i]) return false;
  }
  return true;
}

void Machine::determinism_violation(Worker& worker, Request& request, Choice& choice,
                                    const wire::TokenEvent& event) {
  ++counters_.violations;
  out_->note("determinism violation: a token index came with two different ids",
             {{"request", request.row.id},
              {"choice", std::to_string(event.choice)},
              {"start", std::to_string(event.start)},
              {"worker", worker.hello.worker_key},
              {"class", request.row.numerics_class}},
             true);
  out_->send(worker.peer, wire::Drop{event.request_id, event.choice, "determinism violation"});
  requeue(request, choice, std::string(errc_name(Errc::kDeterminismViolation)));
  quarantine_worker(worker, "determinism violation");
}

/// Binds a request to the numerics class that its first committed token came from.
void Machine::bind_class(Request& request, const std::string& numerics_class) {
  // Choices that wait move to the queue of this class with their request.
  std::vector<Choice*> waiting;
  for (Choice& other : request.choices) {
    if (other.phase != ChoicePhase::kQueued) continue;
    dequeue(request, other);
    waiting.push_back(&other);
  }
  request.row.numerics_class = numerics_class;
  for (Choice* other : waiting) enqueue(request, *other);
  // Synced: the client will see tokens of this class, and after a power failure another class must
  // not begin again.
  write_request(request, Durability::kFull);
  // Choices that run in another class begin again here; none of their tokens has been committed.
  for (Choice& other : request.choices) {
    if (other.phase != ChoicePhase::kRunning) continue;
    const auto load = loads_.find(other.load_id);
    if (load == loads_.end() || load->second.row.numerics_class == numerics_class) continue;
    out_->send(other.worker, wire::CancelWork{request.row.id, other.row.choice, other.fence});
    requeue(request, other, "another numerics class");
  }
}

/// Counts the tokens that a dispatch brought and those that were cached, once, with its first
/// tokens.
void Machine::count_cached(const Request& request, const Choice& choice, std::int64_t cached) {
  PrefixStats& group = stats_.prefix_group(config_.prefix_group(request.row.tenant));
  const std::int64_t tokens =
      request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] + choice.row.next_index;
  group.tokens += static_cast<std::uint64_t>(tokens);
  group.cached += static_cast<std::uint64_t>(std::clamp<std::int64_t>(cached, 0, tokens));
}

/// Adds to the first tokens of a choice what its prompt did not cost.
void Machine::note_cached(const Request& request, Choice& choice, std::int64_t cached,
                          InsertChunk& chunk) {
  const std::int64_t tokens =
      std::min(cached, request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)]);
  if (tokens <= 0 || choice.row.next_index > 0 || chunk.ids.empty()) return;
  choice.noted = true;
  chunk.extra.resize(chunk.ids.size());
  chunk.extra[0] = wire::with_cached_tokens(std::move(chunk.extra[0]), tokens);
}

/// Counts tokens before they are appended. No pause is known for a first event with several tokens,
/// and for the first event after a start.
void Machine::count_tokens(const Request& request, Choice& choice, std::size_t count) {
  counters_.tokens += count;
  ModelStats& stats = stats_.model(request.row.model);
  stats.generated_tokens += count;
  if (choice.last_token_us != 0) {
    stats.token_gap.add((now_.mono_us - choice.last_token_us) / static_cast<std::int64_t>(count),
                        count);
  } else if (choice.row.next_index == 0) {
    stats.first_token.add(now_.mono_us - request.submitted_us);
    if (choice.started_us != 0) stats.prefill.add(now_.mono_us - choice.started_us);
    choice.first_token_us = now_.mono_us;
  }
  stats_.tokens.add(now_.mono_us, count);
  choice.last_token_us = now_.mono_us;
}

/// Appends ids[skip..) and the finish, if it has one. The caller has checked the fence and the
/// start.
void Machine::commit_tokens(Request& request, Choice& choice, const wire::TokenEvent& event,
                            std::int64_t skip) {
  InsertChunk chunk;
  chunk.seq = request.row.seq;
  chunk.choice = choice.row.choice;
  chunk.start = choice.row.next_index;
  chunk.ids.assign(event.ids.begin() + skip, event.ids.end());
  FinishReason finish = event.finish;
  const std::int64_t remaining = indexes_at_most(request) - choice.row.next_index;
  if (static_cast<std::int64_t>(chunk.ids.size()) >= remaining) {
    // The limit is the daemon's promise as well as the worker's.
    chunk.ids.resize(static_cast<std::size_t>(std::max<std::int64_t>(remaining, 0)));
    if (finish == FinishReason::kNone) finish = FinishReason::kLength;
  }
  if (event.extra.size() == event.ids.size()) {
    chunk.extra.assign(event.extra.begin() + skip,
                       event.extra.begin() + skip + static_cast<std::ptrdiff_t>(chunk.ids.size()));
  }
  note_cached(request, choice, event.cached_tokens.value_or(0), chunk);
  const auto load = loads_.find(choice.load_id);
  if (!chunk.ids.empty()) {
    if (request.row.numerics_class.empty() && load != loads_.end()) {
      bind_class(request, load->second.row.numerics_class);
    }
    count_for_alias(request, choice, static_cast<std::int64_t>(chunk.ids.size()));
    count_tokens(request, choice, chunk.ids.size());
    choice.ids.insert(choice.ids.end(), chunk.ids.begin(), chunk.ids.end());
    choice.row.next_index += static_cast<std::int64_t>(chunk.ids.size());
    // Not if bind_class() has quarantined the request: the choice is off its load then.
    if (load != loads_.end() && choice.phase == ChoicePhase::kRunning) {
      const std::int64_t tokens =
          request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] +
          choice.row.next_index;
      const std::int64_t pages = pages_for(tokens + 1, load->second.row.page_tokens);
      load->second.pages_used += pages - choice.pages;
      choice.pages = pages;
    }
    out_->write(std::move(chunk), Durability::kNormal);
    if (finish == FinishReason::kNone) write_choice(request, choice, Durability::kNormal);
  }
  if (finish == FinishReason::kNone) {
    pump_request(request);
    return;
  }
  if (load != loads_.end()) {
    if (finish == FinishReason::kError) {
      if (!is_fault_of_request(event.error_code)) {
        count_failure(load->second.row.worker_key, load->second.row.model,
                      event.error_code + ": " + event.error);
      }
    } else {
      count_success(load->second);
    }
  }
  finish_choice(request, choice, finish, event.error_code, event.error);
  finish_request_if_done(request);
  if (!request.terminal()) pump_request(request);
}

void Machine::worker_message(PeerId peer, const wire::Returned& m) {
  Request* request = requests_.by_id(m.request_id);
  if (request == nullptr || m.choice < 0 ||
      static_cast<std::size_t>(m.choice) >= request->choices.size()) {
    return;
  }
  Choice& choice = request->choices[static_cast<std::size_t>(m.choice)];
  if (choice.phase != ChoicePhase::kRunning || choice.worker != peer || choice.fence != m.fence)
    return;
  ++counters_.returned;
  if (const auto load = loads_.find(choice.load_id); load != loads_.end()) {
    load->second.held_until_us = now_.mono_us + config_.workers_returned_hold_ms * 1000;
    timers_.add(load->second.held_until_us, TimerKind::kDispatch);
  }
  requeue(*request, choice, "returned: " + m.reason);
}

void Machine::worker_message(PeerId peer, const wire::WorkerStats& m) {
  Worker& worker = workers_.at(peer);
  worker.stats = m;
  if (m.memory.total > 0) hear_worker_memory(worker, m.memory);
}

/// Drains a worker that was told to end: what it runs goes on for a while, it gets nothing new.
void Machine::worker_message(PeerId peer, const wire::Drain& m) {
  workers_.at(peer).draining = !m.resume;
  want_dispatch_ = m.resume;
}

void Machine::worker_message(PeerId peer, const wire::Drained&) {
  out_->note("worker drained", {{"worker", workers_.at(peer).hello.worker_key}});
}

}  // namespace holdfast::core
