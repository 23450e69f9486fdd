#include "control/core/machine.h"

#include <algorithm>
#include <cstdlib>

namespace holdfast::core {
namespace {

constexpr std::int64_t kClassLookUs = 1'000'000;  // least time between two looks for a class

}  // namespace

Effects Machine::step(const Event& event, Now now) {
  Effects out;
  step(event, now, out);
  return out;
}

void Machine::step(const Event& event, Now now, Effects& out) {
  now_ = now;
  out_ = &out;
  std::visit([this](const auto& e) { on(e); }, event);
  if (want_placement_) run_placement();
  if (want_aliases_) look_at_aliases();
  if (want_placement_) run_placement();
  if (want_dispatch_) {
    dispatch();
    second_attempts();
  }
  if (draining_) check_drained();
  out_ = nullptr;
}

void Machine::on(const Boot& event) {
  CHECK_MSG(fences_.epoch() == 0, "Boot is the first event, once");
  fences_.set_epoch(event.epoch);
  last_seq_ = event.last_seq;
  config_versions_ = event.config_versions;
  use_config(config_version(), true);
  for (const ConfigImport& import : event.imports) import_config(import);
  paused_ = event.queue_paused;
  start_clock(event);
  drained_workers_.insert(event.drained_workers.begin(), event.drained_workers.end());
  quarantined_workers_ = event.quarantined_workers;
  goldens_ = event.goldens;
  adoption_until_us_ = now_.mono_us + config_.workers_adoption_window_ms * 1000;
  for (const ModelRow& row : event.models) {
    Model model;
    model.row = row;
    model.pinned = std::find(event.pinned_models.begin(), event.pinned_models.end(), row.name) !=
                   event.pinned_models.end();
    if (const auto it = event.identities.find(row.name); it != event.identities.end()) {
      model.identity = it->second;
    }
    if (const auto it = event.load_failures.find(row.name); it != event.load_failures.end()) {
      model.failures = std::atoi(it->second.c_str());
    }
    models_[row.name] = std::move(model);
  }
  for (const LoadRow& row : event.loads) {
    if (row.ended_ms != 0) {
      boot_remains(row);
      continue;
    }
    Load load;
    load.row = row;
    load.deadline_us = adoption_until_us_;
    if (row.state == ModelState::kReady) load.ready_us = now_.mono_us;
    load.settled = row.state == ModelState::kReady || row.state == ModelState::kDraining;
    loads_[row.load_id] = std::move(load);
  }
  boot_aliases(event);
  unread_ = event.unread;
  keys_.restore(event.keys, now_);
  for (const BootRequest& request : event.requests) bring_in(request);
  for (auto& [name, model] : models_) refresh_model(model, "daemon started");
  timers_.add(adoption_until_us_, TimerKind::kAdoption);
  out_->note("booted",
             {{"epoch", std::to_string(event.epoch)},
              {"live_requests", std::to_string(requests_.usage().all().requests + unread_)},
              {"models", std::to_string(models_.size())}});
  want_placement_ = want_dispatch_ = true;
}

/// Starts the clock of deadlines: steps of the wall clock, before or between processes, must not
/// move them.
void Machine::start_clock(const Boot& event) {
  clock_offset_ms_ = event.clock_offset_ms;
  if (!event.boot_id.empty() && event.boot_id == event.clock_boot_id) return;
  clock_offset_ms_ = now_.wall_ms - now_.mono_us / 1000;
  if (event.boot_id.empty()) return;
  out_->write(PutFlag{"clock.offset", event.boot_id + " " + std::to_string(clock_offset_ms_)},
              Durability::kFull);
}

void Machine::on(const Recall& event) {
  if (requests_.by_id(event.request.row.id) != nullptr) return;
  if (wire::is_terminal(event.request.row.state)) {
    take_in(event.request);
    return;
  }
  // Live requests are all in memory, but for those of the queue that are still to be read.
  CHECK_MSG(unread_ > 0, "a live request is not in memory");
  --unread_;
  bring_in_late(event.request);
  want_dispatch_ = true;
}

void Machine::on(const BootQueuePage& event) {
  for (const BootRequest& request : event.requests) {
    if (requests_.by_seq(request.row.seq) != nullptr) continue;  // recalled, and maybe ended since
    unread_ = std::max<std::int64_t>(unread_ - 1, 0);
    bring_in_late(request);
  }
  if (event.last) unread_ = 0;
  for (auto& [name, model] : models_) {
    if (model.row.state == ModelState::kFailed && !event.requests.empty()) fail_waiting(model);
  }
  want_dispatch_ = true;
}

/// Takes in a request that was read after the start. Running ones were in Boot; a worker that was
/// asked about this one has been told to drop it.
void Machine::bring_in_late(const BootRequest& boot) {
  bring_in(boot);
  Request* in = requests_.by_seq(boot.row.seq);
  for (Choice& choice : in->choices) {
    if (choice.phase == ChoicePhase::kAdopting) requeue(*in, choice, "not adopted");
  }
}

void Machine::bring_in(const BootRequest& boot) {
  Request& in = take_in(boot);
  counters_.recovered += !in.terminal();
  arm_request(in);
  if (in.row.canary != 0) reroute_late(in);
  if (!boot.damaged.empty()) on(RowsDamaged{in.row.seq, boot.damaged});
}

Request& Machine::take_in(const BootRequest& boot) {
  Request request;
  request.row = boot.row;
  request.sampling = boot.sampling;
  request.stops = boot.stops;
  request.echo = boot.echo;
  request.meta = boot.meta;
  request.prompt_tokens = boot.prompt_tokens;
  request.payload_bytes = text_bytes(boot.meta, boot.sampling, boot.stops);
  for (const std::int64_t tokens : boot.prompt_tokens) request.payload_bytes += tokens * 4;
  // By the wall clock: an earlier process shares no other one.
  const std::int64_t age_ms = std::max<std::int64_t>(now_.wall_ms - boot.row.created_ms, 0);
  request.submitted_us = request.accepted_us = now_.mono_us - age_ms * 1000;
  const auto monotonic = [&](std::int64_t wall_deadline) {
    return wall_deadline == 0 ? 0 : now_.mono_us + (wall_deadline - steady_ms()) * 1000;
  };
  if (boot.row.started_ms == 0) request.queue_deadline_us = monotonic(boot.row.queue_deadline_ms);
  request.total_deadline_us = monotonic(boot.row.total_deadline_ms);
  if (!request.terminal() && boot.row.on_disconnect == wire::OnDisconnect::kCancel) {
    request.orphan_deadline_us = now_.mono_us + config_.requests_disconnect_grace_ms * 1000;
  }
  request.choices.resize(boot.choices.size());
  for (std::size_t i = 0; i < boot.choices.size(); ++i) {
    request.choices[i].row = boot.choices[i].row;
    request.choices[i].phase = ChoicePhase::kEnded;
  }
  Request& in = *requests_.insert(std::move(request));
  quarantined_ += in.row.state == RequestState::kQuarantined;
  if (in.terminal()) return in;
  for (std::size_t i = 0; i < boot.choices.size(); ++i) {
    boot_choice(in, in.choices[i], boot.choices[i]);
  }
  return in;
}

/// Takes in a choice that had not ended: it waits for its worker inside the adoption window, or is
/// queued.
void Machine::boot_choice(Request& request, Choice& choice, const BootChoice& boot) {
  if (choice.row.finish != FinishReason::kNone) return;
  choice.ids = boot.ids;
  choice.noted = !boot.ids.empty();
  if (request.row.state == RequestState::kQuarantined) {
    choice.phase = ChoicePhase::kQueued;
    return;
  }
  choice.resumed = boot.has_attempt || choice.row.next_index > 0 || request.row.started_ms != 0;
  if (!boot.has_attempt) {
    enqueue(request, choice);
    return;
  }
  choice.phase = ChoicePhase::kAdopting;
  choice.fence = boot.fence;
  choice.worker_key = boot.worker_key;
  choice.incarnation = boot.incarnation;
  choice.load_id = boot.load_id;
  count_running(request, choice);
}

void Machine::on(const RowsDamaged& event) {
  Request* request = requests_.by_seq(event.seq);
  if (request == nullptr || request->terminal()) return;
  out_->note("stored rows of a request are damaged",
             {{"request", request->row.id}, {"why", event.why}}, true);
  end_request(*request, FinishReason::kError, std::string(errc_name(Errc::kCorrupt)), event.why,
              true);
}

void Machine::on(const StorageLevel& event) {
  if (event.low != storage_low_) {
    out_->note(event.low ? "disk nearly full: new requests are refused" : "disk has room again",
               {{"free_bytes", std::to_string(event.free_bytes)}}, event.low);
  }
  storage_low_ = event.low;
}

void Machine::on(const Shutdown& event) {
  if (!draining_) drain_until_us_ = now_.mono_us + event.limit_ms * 1000;
  draining_ = true;
  drain_until_us_ = std::min(drain_until_us_, now_.mono_us + event.limit_ms * 1000);
  timers_.add(drain_until_us_, TimerKind::kDrain);
  out_->note("draining", {{"running", std::to_string(running_choices())},
                          {"limit_ms", std::to_string(event.limit_ms)}});
}

void Machine::check_drained() {
  const bool over = now_.mono_us >= drain_until_us_;
  if (running_choices() > 0 && !over) return;
  out_->stop = true;
}

void Machine::on(const Timer&) {
  while (auto entry = timers_.take_due(now_.mono_us)) timer_due(*entry);
}

void Machine::timer_due(const TimerEntry& entry) {
  switch (entry.kind) {
    case TimerKind::kRequest:
      check_request(entry.id);
      return;
    case TimerKind::kAdoption:
      for (auto& [seq, request] : requests_.all()) {
        for (Choice& choice : request.choices) {
          if (choice.phase != ChoicePhase::kAdopting) continue;
          requeue(request, choice, "not adopted");
        }
      }
      for (auto it = loads_.begin(); it != loads_.end();) {
        const std::string id = (it++)->first;
        // A load whose worker came and went since the start has its own time to come back.
        const Load& load = loads_.at(id);
        if (load.worker != 0 || load.deadline_us > now_.mono_us) continue;
        leave_remains(load, true);
        end_load(id, ModelState::kUnloaded, "its worker is gone");
      }
      want_placement_ = true;
      return;
    case TimerKind::kJob: {
      const auto job = jobs_.find(static_cast<std::uint64_t>(entry.id));
      if (job != jobs_.end() && job->second.deadline_us <= now_.mono_us) {
        job_lost(job->second, "took too long");
      }
      return;
    }
    case TimerKind::kLoad:
      load_due(entry.key);
      return;
    case TimerKind::kPlacement:
      drop_remains([&](const Remains& left) { return left.until_us <= now_.mono_us; });
      want_placement_ = true;
      return;
    case TimerKind::kDispatch:
      want_dispatch_ = true;
      return;
    case TimerKind::kAlias:
      want_aliases_ = true;
      return;
    case TimerKind::kStalled: {
      Subscription* sub = streams_.find(static_cast<PeerId>(entry.id), entry.tag);
      if (sub == nullptr) return;
      Request* request = requests_.by_seq(sub->seq);
      if (request != nullptr) pump_one(*sub, *request);
      return;
    }
    case TimerKind::kFinished: {
      const Subscription* sub = streams_.find(static_cast<PeerId>(entry.id), entry.tag);
      // An earlier FIN that came back has left an entry too.
      if (sub != nullptr && sub->fin_sent && sub->fin_until_us <= now_.mono_us) {
        unsubscribe(streams_.remove(sub->peer, sub->tag));
      }
      return;
    }
    case TimerKind::kDrain:
      return;  // step() looks at it after every event
  }
}

/// Ends a load whose worker did not come back, or does not say how far it is.
void Machine::load_due(const std::string& id) {
  const auto load = loads_.find(id);
  if (load == loads_.end() || load->second.deadline_us > now_.mono_us) return;
  const ModelState state = load->second.row.state;
  if (load->second.worker == 0) {
    leave_remains(load->second, true);
    end_load(id, ModelState::kUnloaded, "its worker is gone");
    return;
  }
  if (state == ModelState::kReady || state == ModelState::kDraining) return;
  leave_remains(load->second, true);  // its worker may still be loading
  load_failed(load->second, "no report from the worker while loading");
}

void Machine::arm_request(const Request& request) {
  for (const std::int64_t at : {request.queue_deadline_us, request.total_deadline_us,
                                request.orphan_deadline_us, request.class_deadline_us}) {
    if (at != 0) timers_.add(at, TimerKind::kRequest, request.row.seq);
  }
}

void Machine::check_request(Seq seq) {
  Request* request = requests_.by_seq(seq);
  if (request == nullptr || request->terminal()) return;
  const auto due = [&](std::int64_t at) { return at != 0 && at <= now_.mono_us; };
  if (due(request->total_deadline_us)) {
    end_request(*request, FinishReason::kExpired, "expired", "total time limit reached", true);
    return;
  }
  if (due(request->queue_deadline_us) && request->row.started_ms == 0) {
    end_request(*request, FinishReason::kExpired, "expired", "waited in the queue too long", true);
    return;
  }
  if (due(request->orphan_deadline_us) && request->subscribers == 0) {
    cancel_request(*request);
    return;
  }
  if (due(request->class_deadline_us)) check_class(*request);
}

/// Ends a request whose numerics class is gone, or looks again later. A worker that is away just
/// now is not a class that is gone: it must have been away all the time.
void Machine::check_class(Request& request) {
  if (request.row.state == RequestState::kQuarantined) return;  // armed again by its release
  const bool waits = request.running == 0 && request.row.state == RequestState::kQueued;
  const bool served = std::any_of(loads_.begin(), loads_.end(), [&](const auto& item) {
    const LoadRow& row = item.second.row;
    return row.model == request.row.model && row.state == ModelState::kReady &&
           row.numerics_class == request.row.numerics_class;
  });
  const std::int64_t wait_us = config_.requests_class_wait_ms * 1000;
  const auto left = class_left_us_.find(class_key(request));
  std::int64_t again_us = left == class_left_us_.end() ? 0 : left->second + wait_us;
  if (served || !waits) again_us = now_.mono_us + std::max(wait_us, kClassLookUs);
  if (again_us > now_.mono_us) {
    request.class_deadline_us = again_us;
    timers_.add(again_us, TimerKind::kRequest, request.row.seq);
    return;
  }
  end_request(request, FinishReason::kError,
              std::string(errc_name(Errc::kDeterminismClassUnavailable)),
              "no worker of numerics class " + request.row.numerics_class + " came back", true);
}

void Machine::on(const PeerGone& event) {
  worker_peer_gone(event.peer);
  if (helpers_.has(event.peer)) helper_gone(event.peer);
  for (const Seq seq : streams_.remove_peer(event.peer)) unsubscribe(seq);
  for (auto& [id, job] : jobs_) {
    std::erase_if(job.waiters, [&](const auto& waiter) { return waiter.first == event.peer; });
  }
}

std::int64_t Machine::queued_choices() const {
  std::int64_t total = unread_;
  for (const auto& [key, queue] : queues_) total += static_cast<std::int64_t>(queue.size());
  return total;
}

wire::RequestInfo Machine::info(const Request& request) const {
  wire::RequestInfo info;
  info.request_id = request.row.id;
  info.tenant = request.row.tenant;
  info.model = request.row.model;
  info.model_sha = request.row.model_sha;
  info.state = request.row.state;
  info.created_ms = request.row.created_ms;
  info.finished_ms = request.row.finished_ms;
  info.prompt_tokens = request.prompt_tokens;
  for (const Choice& choice : request.choices) {
    info.choices.push_back({choice.row.choice, choice.row.prompt, choice.row.next_index,
                            choice.row.finish, choice.row.error_code, choice.row.error});
  }
  info.max_tokens = request.row.max_tokens;
  info.sampling = request.sampling;
  info.stops = request.stops;
  info.echo = request.echo;
  info.meta = request.meta;
  info.alias = request.row.alias;
  if (request.row.state != RequestState::kQueued) return info;
  const auto queue = queues_.find(request.row.model);
  for (const Choice& choice : request.choices) {
    if (choice.phase != ChoicePhase::kQueued || queue == queues_.end()) continue;
    const ChoiceRef ref{request.row.seq, choice.row.choice};
    info.queue_position = queue->second.position(ref);
    break;
  }
  const auto model = models_.find(request.row.model);
  std::int64_t slots = 0;
  for (const auto& [id, load] : loads_) {
    if (load.row.model == request.row.model && load.row.state == ModelState::kReady) {
      slots += load.row.slots;
    }
  }
  if (model != models_.end() && model->second.service_ms > 0 && slots > 0 &&
      info.queue_position >= 0) {
    info.eta_ms = static_cast<std::int64_t>(model->second.service_ms *
                                            static_cast<double>(info.queue_position + 1) /
                                            static_cast<double>(slots));
  }
  return info;
}

}  // namespace holdfast::core
