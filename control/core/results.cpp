// Results of workers. A token counts only under the current fence and at the next index.
#include "control/core/results.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "control/core/blame.h"
#include "control/core/breakers.h"
#include "control/core/canaries.h"
#include "control/core/client_streams.h"
#include "control/core/fleet.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "shared/wire/cached_tokens.h"

namespace holdfast::core {

void Results::worker_message(PeerId peer, const wire::Tokens& m) {
  wire::Ack ack;
  for (const wire::TokenEvent& event : m.events) {
    // A violation in one event ends the worker's right to be believed in the next.
    const auto worker = fleet_.workers().find(peer);
    if (worker == fleet_.workers().end()) return;
    token_event(worker->second, event, ack);
  }
  if (!ack.items.empty()) core_.out->send(peer, std::move(ack));
}

void Results::token_event(Worker& worker, const wire::TokenEvent& event, wire::Ack& ack) {
  Request* request = lifecycle_.requests().by_id(event.request_id);
  const bool found = request != nullptr && event.choice >= 0 &&
                     static_cast<std::size_t>(event.choice) < request->choices.size();
  const auto drop = [&](const std::string& reason) {
    ++core_.counters.stale_events;
    core_.out->send(worker.peer, wire::Drop{event.request_id, event.choice, reason});
  };
  if (!found) return drop("unknown request");
  Choice& choice = request->choices[static_cast<std::size_t>(event.choice)];
  const bool mine = choice.phase == ChoicePhase::kRunning && choice.worker == worker.peer;
  if (choice.fence != event.fence) {
    // DROP names no fence: it must not reach a newer attempt on the same worker, whose ADOPT or
    // DISPATCH is on its way.
    if (mine) {
      ++core_.counters.stale_events;
      return;
    }
    return drop("stale fence");
  }
  if (choice.phase == ChoicePhase::kEnded) {
    // Our ACK was lost, or a cancel met the last token. Either way the worker may forget it.
    ack.items.push_back({event.request_id, event.choice, event.fence, choice.row.next_index, true});
    ++core_.counters.duplicate_tokens;
    return;
  }
  if (!mine) return drop("not running here");
  if (event.start < 0 || event.start > choice.row.next_index) {
    core_.out->note("gap in tokens",
                    {{"request", request->row.id},
                     {"start", std::to_string(event.start)},
                     {"expected", std::to_string(choice.row.next_index)}},
                    true);
    drop("gap");
    lifecycle_.requeue(*request, choice, "gap in tokens");
    return;
  }
  if (!same_as_stored(*request, choice, event)) {
    determinism_violation(worker, *request, choice, event);
    return;
  }
  const std::int64_t skip = std::min<std::int64_t>(choice.row.next_index - event.start,
                                                   static_cast<std::int64_t>(event.ids.size()));
  core_.counters.duplicate_tokens += static_cast<std::uint64_t>(skip);
  const Fence fence = choice.fence;
  if (event.cached_tokens) count_cached(*request, choice, *event.cached_tokens);
  commit_tokens(*request, choice, event, skip);
  ack.items.push_back({event.request_id, event.choice, fence, choice.row.next_index,
                       choice.phase == ChoicePhase::kEnded});
}

bool Results::same_as_stored(const Request&, const Choice& choice,
                             const wire::TokenEvent& event) const {
  const auto committed = static_cast<std::int64_t>(choice.ids.size());
  for (std::size_t i = 0; i < event.ids.size(); ++i) {
    const std::int64_t index = event.start + static_cast<std::int64_t>(i);
    if (index >= committed) return true;
    if (choice.ids[static_cast<std::size_t>(index)] != event.ids[i]) return false;
  }
  return true;
}

void Results::determinism_violation(Worker& worker, Request& request, Choice& choice,
                                    const wire::TokenEvent& event) {
  ++core_.counters.violations;
  core_.out->note("determinism violation: a token index came with two different ids",
                  {{"request", request.row.id},
                   {"choice", std::to_string(event.choice)},
                   {"start", std::to_string(event.start)},
                   {"worker", worker.hello.worker_key},
                   {"class", request.row.numerics_class}},
                  true);
  core_.out->send(worker.peer, wire::Drop{event.request_id, event.choice, "determinism violation"});
  lifecycle_.requeue(request, choice, std::string(errc_name(Errc::kDeterminismViolation)));
  fleet_.quarantine_worker(worker, "determinism violation");
}

/// Binds a request to the numerics class that its first committed token came from.
void Results::bind_class(Request& request, const std::string& numerics_class) {
  // Choices that wait move to the queue of this class with their request.
  std::vector<Choice*> waiting;
  for (Choice& other : request.choices) {
    if (other.phase != ChoicePhase::kQueued) continue;
    lifecycle_.dequeue(request, other);
    waiting.push_back(&other);
  }
  request.row.numerics_class = numerics_class;
  lifecycle_.requests().usage().count_bound(request.row, 1);
  for (Choice* other : waiting) lifecycle_.enqueue(request, *other);
  // Synced: the client will see tokens of this class, and after a power failure another class must
  // not begin again.
  lifecycle_.write_request(request, Durability::kFull);
  // Choices that run in another class begin again here; none of their tokens has been committed.
  for (Choice& other : request.choices) {
    if (other.phase != ChoicePhase::kRunning) continue;
    const auto load = loads_.all().find(other.load_id);
    if (load == loads_.all().end() || load->second.row.numerics_class == numerics_class) continue;
    core_.out->send(other.worker, wire::CancelWork{request.row.id, other.row.choice, other.fence});
    lifecycle_.requeue(request, other, "another numerics class");
  }
}

/// Counts the tokens that a dispatch brought and those that were cached, once, with its first
/// tokens.
void Results::count_cached(const Request& request, const Choice& choice, std::int64_t cached) {
  PrefixStats& group = core_.stats.prefix_group(core_.config.prefix_group(request.row.tenant));
  const std::int64_t tokens =
      request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] + choice.row.next_index;
  group.tokens += static_cast<std::uint64_t>(tokens);
  group.cached += static_cast<std::uint64_t>(std::clamp<std::int64_t>(cached, 0, tokens));
}

/// Adds to the first tokens of a choice what its prompt did not cost.
void Results::note_cached(const Request& request, Choice& choice, std::int64_t cached,
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
void Results::count_tokens(const Request& request, Choice& choice, std::size_t count) {
  core_.counters.tokens += count;
  ModelStats& stats = core_.stats.model(request.row.model);
  stats.generated_tokens += count;
  if (choice.last_token_us != 0) {
    stats.token_gap.add(
        (core_.now.mono_us - choice.last_token_us) / static_cast<std::int64_t>(count), count);
  } else if (choice.row.next_index == 0) {
    stats.first_token.add(core_.now.mono_us - request.submitted_us);
    if (choice.started_us != 0) stats.prefill.add(core_.now.mono_us - choice.started_us);
    choice.first_token_us = core_.now.mono_us;
  }
  core_.stats.tokens.add(core_.now.mono_us, count);
  choice.last_token_us = core_.now.mono_us;
}

/// Appends ids[skip..) and the finish, if it has one. The caller has checked the fence and the
/// start.
void Results::commit_tokens(Request& request, Choice& choice, const wire::TokenEvent& event,
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
  const auto load = loads_.all().find(choice.load_id);
  if (!chunk.ids.empty()) {
    if (request.row.numerics_class.empty() && load != loads_.all().end()) {
      bind_class(request, load->second.row.numerics_class);
    }
    canaries_.count_for_alias(request, choice, static_cast<std::int64_t>(chunk.ids.size()));
    count_tokens(request, choice, chunk.ids.size());
    choice.ids.insert(choice.ids.end(), chunk.ids.begin(), chunk.ids.end());
    choice.row.next_index += static_cast<std::int64_t>(chunk.ids.size());
    // Not if bind_class() has quarantined the request: the choice is off its load then.
    if (load != loads_.all().end() && choice.phase == ChoicePhase::kRunning) {
      const std::int64_t tokens =
          request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] +
          choice.row.next_index;
      const std::int64_t pages = pages_for(tokens + 1, load->second.row.page_tokens);
      load->second.pages_used += pages - choice.pages;
      choice.pages = pages;
    }
    core_.out->write(std::move(chunk), Durability::kNormal);
    if (finish == FinishReason::kNone)
      lifecycle_.write_choice(request, choice, Durability::kNormal);
  }
  if (finish == FinishReason::kNone) {
    streams_.pump_request(request);
    return;
  }
  if (load != loads_.all().end()) {
    if (finish == FinishReason::kError) {
      if (!is_fault_of_request(event.error_code)) {
        breakers_.count_failure(load->second.row.worker_key, load->second.row.model,
                                event.error_code + ": " + event.error);
      }
    } else {
      breakers_.count_success(load->second);
    }
  }
  lifecycle_.finish_choice(request, choice, finish, event.error_code, event.error);
  lifecycle_.finish_request_if_done(request);
  if (!request.terminal()) streams_.pump_request(request);
}

void Results::worker_message(PeerId peer, const wire::Returned& m) {
  Request* request = lifecycle_.requests().by_id(m.request_id);
  if (request == nullptr || m.choice < 0 ||
      static_cast<std::size_t>(m.choice) >= request->choices.size()) {
    return;
  }
  Choice& choice = request->choices[static_cast<std::size_t>(m.choice)];
  if (choice.phase != ChoicePhase::kRunning || choice.worker != peer || choice.fence != m.fence)
    return;
  ++core_.counters.returned;
  if (const auto load = loads_.all().find(choice.load_id); load != loads_.all().end()) {
    load->second.held_until_us = core_.now.mono_us + core_.config.workers_returned_hold_ms * 1000;
    core_.timers.add(load->second.held_until_us, TimerKind::kDispatch);
  }
  lifecycle_.requeue(*request, choice, "returned: " + m.reason);
}

}  // namespace holdfast::core
