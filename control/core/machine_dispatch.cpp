// Which work goes to which worker.
#include <algorithm>

#include "control/core/machine.h"
#include "control/core/planted.h"

namespace holdfast::core {

/// The queue whose head goes next on this load: work bound to its class, or not bound yet.
WorkQueue* Machine::best_queue(const Load& load) {
  WorkQueue* best = nullptr;
  for (const QueueKey& key : {QueueKey{load.row.model, load.row.numerics_class},
                              QueueKey{load.row.model, std::string()}}) {
    const auto it = queues_.find(key);
    if (it == queues_.end() || it->second.head() == nullptr || best == &it->second) continue;
    if (best == nullptr || goes_before(*it->second.head(), *best->head())) best = &it->second;
  }
  return best;
}

void Machine::dispatch() {
  want_dispatch_ = false;
  if (paused_ || draining_ || queues_.empty()) return;
  // Most free slots first, so that several workers fill evenly; ids make ties deterministic.
  std::vector<std::pair<std::int64_t, Load*>> ready;
  for (auto& [id, load] : loads_) {
    const auto worker = workers_.find(load.worker);
    if (load.row.state != ModelState::kReady || worker == workers_.end() ||
        worker->second.quarantined || worker->second.draining || load.alone ||
        load.held_until_us > now_.mono_us) {
      continue;
    }
    const std::int64_t extra = planted(Bug::kSlotsMiscounted) ? 1 : 0;
    const auto free = load.row.slots + extra - static_cast<std::int64_t>(load.running.size());
    if (free > 0) ready.emplace_back(-free, &load);
  }
  const auto by_free = [](const auto& a, const auto& b) {
    return std::make_pair(a.first, a.second->row.load_id) >
           std::make_pair(b.first, b.second->row.load_id);
  };
  std::make_heap(ready.begin(), ready.end(), by_free);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), by_free);
    if (!dispatch_to(*ready.back().second)) {
      ready.pop_back();
      continue;
    }
    ++ready.back().first;
    std::push_heap(ready.begin(), ready.end(), by_free);
  }
}

/// One choice onto this load. False if there is none that it can take now.
bool Machine::dispatch_to(Load& load) {
  if (load.alone || !breakers_allow(load)) return false;
  WorkQueue* queue = best_queue(load);
  if (queue == nullptr) return false;
  const ChoiceRef ref = queue->head()->ref;
  Request* request = requests_.by_seq(ref.seq);
  CHECK(request != nullptr);
  Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
  const std::int64_t tokens =
      request->prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] + choice.row.next_index;
  if (!fits_now(load, tokens)) return false;
  const bool suspect = suspicion(choice, config_) != Suspicion::kNone;
  if (suspect && !load.running.empty()) return false;  // it waits until one worker is empty
  queue->pop(config_.tenant(request->row.tenant).weight);
  if (queue->size() == 0) queues_.erase(queue_key(*request));
  load.alone = suspect;
  start_choice(*request, choice, load);
  return true;
}

void Machine::start_choice(Request& request, Choice& choice, Load& load) {
  CHECK_MSG(static_cast<std::int64_t>(choice.ids.size()) == choice.row.next_index,
            "a dispatch carries every committed token");
  const Worker& worker = workers_.at(load.worker);
  choice.phase = ChoicePhase::kRunning;
  choice.fence = fences_.next();
  choice.started_us = now_.mono_us;
  choice.worker = worker.peer;
  choice.worker_key = worker.hello.worker_key;
  choice.incarnation = worker.hello.incarnation;
  choice.load_id = load.row.load_id;
  const std::int64_t tokens =
      request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] + choice.row.next_index;
  choice.pages = pages_for(tokens + 1, load.row.page_tokens);
  load.pages_used += choice.pages;
  load.running.insert({request.row.seq, choice.row.choice});
  ++request.running;
  ++running_;
  ++counters_.dispatched;
  counters_.resumed += choice.resumed;
  request.class_deadline_us = 0;
  const bool first = request.row.started_ms == 0;
  if (first) request.row.started_ms = now_.wall_ms;
  const bool was_queued = request.row.state == RequestState::kQueued;
  change(request, RequestChange::kDispatched);
  if (first || was_queued) write_request(request, Durability::kNormal);
  out_->write(
      BeginAttempt{request.row.seq, choice.row.choice, choice.fence, choice.worker_key,
                   choice.incarnation, choice.load_id, choice.row.next_index, false, now_.wall_ms},
      Durability::kNormal);
  if (const auto model = models_.find(request.row.model); model != models_.end()) {
    model->second.row.last_used_ms = now_.wall_ms;
  }
  SendDispatch send;
  send.to = worker.peer;
  send.seq = request.row.seq;
  send.prompt = choice.row.prompt;
  wire::Dispatch& d = send.dispatch;
  d.request_id = request.row.id;
  d.choice = choice.row.choice;
  d.fence = choice.fence;
  d.load_id = load.row.load_id;
  d.model_sha = request.row.model_sha;
  if (!planted(Bug::kCommittedNotSent)) d.committed_ids = choice.ids;
  d.sampling = request.sampling;
  d.stops = request.stops;
  d.max_tokens = request.row.max_tokens;
  d.priority = static_cast<std::int32_t>(request.row.priority);
  if (request.total_deadline_us != 0) {
    d.time_left_ms = std::max<std::int64_t>((request.total_deadline_us - now_.mono_us) / 1000, 0);
  }
  if (planted(Bug::kDoubleDispatch)) {
    for (const auto& [id, other] : loads_) {
      if (other.worker == 0 || other.worker == send.to || other.row.model != request.row.model)
        continue;
      SendDispatch twice = send;
      twice.to = other.worker;
      twice.dispatch.load_id = id;
      out_->messages.emplace_back(std::move(twice));
    }
  }
  out_->messages.emplace_back(std::move(send));
}

}  // namespace holdfast::core
