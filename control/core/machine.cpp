#include "control/core/machine.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace holdfast::core {
namespace {

/// Makes a visitor of functions, one for each type.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // clang 14 deduces nothing for aggregates

}  // namespace

Effects Machine::step(const Event& event, Now now) {
  Effects out;
  step(event, now, out);
  return out;
}

void Machine::step(const Event& event, Now now, Effects& out) {
  components_->core.now = now;
  components_->core.out = &out;
  route(event);
  look_at_usage();
  if (components_->core.want_placement) {
    components_->idle_unloads.run();
    run_placement();
  }
  if (components_->core.want_aliases) components_->aliases.look_at_aliases();
  if (components_->core.want_placement) run_placement();
  if (components_->dispatcher.has_work()) {
    components_->dispatcher.dispatch();
    components_->dispatcher.second_attempts();
  }
  if (components_->core.draining) check_drained();
  components_->core.out = nullptr;
}

/// Placement looks at every worker for every model: not for each request that ends.
void Machine::look_at_usage() {
  Core& core = components_->core;
  const std::set<std::string> changed = std::exchange(core.usage_changed, {});
  if (changed.empty() || core.want_placement) return;
  const auto& models = components_->registry.models();
  core.want_placement = std::any_of(models.begin(), models.end(), [](const auto& item) {
    return waits_for_placement(item.second);
  });
  if (!core.want_placement) components_->idle_unloads.run(changed);
}

void Machine::run_placement() {
  components_->placement.run_placement();
  components_->fetches.run();
}

void Machine::route(const Event& event) {
  std::visit(
      Overloaded{
          [&](const Boot& e) { boot(e); },
          [&](const Recall& e) { components_->recovery.on(e); },
          [&](const BootQueuePage& e) { components_->recovery.on(e); },
          [&](const RowsDamaged& e) { components_->recovery.on(e); },
          [&](const SubmitEvent& e) { components_->intake.on(e); },
          [&](const PreparedEvent& e) { components_->intake.on(e); },
          [&](const IngressUp& e) { components_->jobs.on(e); },
          [&](const FromClient& e) { components_->streams.on(e); },
          [&](const SendFailed& e) { components_->streams.on(e); },
          [&](const FromWorker& e) { from_worker(e); },
          [&](const WorkerHealth& e) { components_->fleet.on(e); },
          [&](const WorkerExit& e) { components_->postmortem.on(e); },
          [&](const MemoryLevel& e) { components_->memory.on(e); },
          [&](const InspectedEvent& e) { components_->model_verbs.on(e); },
          [&](const OpAddModel& e) { components_->model_verbs.on(e); },
          [&](const OpModel& e) { components_->model_verbs.on(e); },
          [&](const OpGolden& e) { components_->model_verbs.on(e); },
          [&](const OpAlias& e) { components_->aliases.on(e); },
          [&](const OpCanary& e) { components_->canaries.on(e); },
          [&](const OpConfig& e) { components_->config_history.on(e); },
          [&](const OpWorker& e) { components_->fleet.on(e); },
          [&](const NodeReport& e) { components_->nodes.on(e); },
          [&](const NodeHealth& e) { components_->nodes.on(e); },
          [&](const OpNode& e) { components_->nodes.on(e); },
          [&](const OpCancel& e) { components_->request_verbs.on(e); },
          [&](const OpMove& e) { components_->request_verbs.on(e); },
          [&](const OpRequeue& e) { components_->request_verbs.on(e); },
          [&](const OpPause& e) { components_->request_verbs.on(e); },
          [&](const Sweep& e) { components_->lifecycle.on(e); },
          [&](const PeerGone& e) { peer_gone(e.peer); },
          [&](const Timer&) {
            while (auto entry = components_->core.timers.take_due(components_->core.now.mono_us))
              timer_due(*entry);
          },
          [&](const StorageLevel& e) { storage_level(e); },
          [&](const StandbyLevel& e) { standby_level(e); },
          [&](const Shutdown& e) { shutdown(e); },
      },
      event);
}

void Machine::boot(const Boot& event) {
  CHECK_MSG(components_->core.fences.epoch() == 0, "Boot is the first event, once");
  components_->core.fences.set_epoch(event.epoch);
  components_->intake.boot(event);
  components_->config_history.boot(event);
  components_->core.paused = event.queue_paused;
  components_->core.start_clock(event);
  components_->fleet.boot(event);
  components_->nodes.boot(event);
  components_->model_verbs.boot(event);
  components_->registry.boot(event);
  const std::int64_t adoption_until_us =
      components_->core.now.mono_us + components_->core.config.workers_adoption_window_ms * 1000;
  components_->loads.boot(event, adoption_until_us);
  components_->aliases.boot(event);
  components_->canaries.boot(event);
  components_->recovery.boot(event);
  for (auto& [name, model] : components_->registry.models()) {
    components_->registry.refresh_model(model, "daemon started");
  }
  components_->core.timers.add(adoption_until_us, TimerKind::kAdoption);
  const std::int64_t live =
      components_->lifecycle.requests().usage().all().requests + components_->lifecycle.unread();
  components_->core.out->note("booted",
                              {{"epoch", std::to_string(event.epoch)},
                               {"live_requests", std::to_string(live)},
                               {"models", std::to_string(components_->registry.models().size())}});
  components_->core.want_placement = components_->core.want_dispatch = true;
}

void Machine::from_worker(const FromWorker& event) {
  if (!components_->fleet.listens_to(event)) return;
  const PeerId peer = event.peer;
  std::visit(Overloaded{
                 [&](const wire::Tokens& m) { components_->results.worker_message(peer, m); },
                 [&](const wire::Returned& m) { components_->results.worker_message(peer, m); },
                 [&](const wire::StateReport& m) { components_->loads.worker_message(peer, m); },
                 [&](const auto& m) { components_->fleet.worker_message(peer, m); },
             },
             event.message);
}

void Machine::peer_gone(PeerId peer) {
  components_->fleet.worker_peer_gone(peer);
  components_->nodes.peer_gone(peer);
  components_->jobs.helper_gone(peer);
  components_->streams.peer_gone(peer);
  components_->jobs.forget_waiter(peer);
}

void Machine::timer_due(const TimerEntry& entry) {
  switch (entry.kind) {
    case TimerKind::kRequest:
      return components_->lifecycle.check_request(entry.id);
    case TimerKind::kAdoption:
      components_->nodes.end_adoption();
      return components_->fleet.end_adoption();
    case TimerKind::kJob:
      return components_->jobs.job_due(static_cast<std::uint64_t>(entry.id));
    case TimerKind::kLoad:
      return components_->loads.load_due(entry.key);
    case TimerKind::kPlacement:
      components_->memory.drop_due_remains();
      components_->core.want_placement = true;
      return;
    case TimerKind::kDispatch:
      components_->core.want_dispatch = true;
      return;
    case TimerKind::kAlias:
      components_->core.want_aliases = true;
      return;
    case TimerKind::kStalled:
      return components_->streams.stall_over(static_cast<PeerId>(entry.id), entry.tag);
    case TimerKind::kFinished:
      return components_->streams.fin_over(static_cast<PeerId>(entry.id), entry.tag);
    case TimerKind::kDrain:
      return;  // step() looks at it after every event
  }
}

void Machine::storage_level(const StorageLevel& event) {
  if (event.low != components_->core.storage_low) {
    components_->core.out->note(
        event.low ? "disk nearly full: new requests are refused" : "disk has room again",
        {{"free_bytes", std::to_string(event.free_bytes)}}, event.low);
  }
  components_->core.storage_low = event.low;
}

void Machine::standby_level(const StandbyLevel& event) {
  components_->core.out->note(
      event.missing ? "no standby: new requests are refused" : "new requests are accepted again",
      {}, event.missing);
  components_->core.standby_missing = event.missing;
}

void Machine::shutdown(const Shutdown& event) {
  if (!components_->core.draining)
    drain_until_us_ = components_->core.now.mono_us + event.limit_ms * 1000;
  components_->core.draining = true;
  drain_until_us_ =
      std::min(drain_until_us_, components_->core.now.mono_us + event.limit_ms * 1000);
  components_->core.timers.add(drain_until_us_, TimerKind::kDrain);
  components_->core.out->note(
      "draining", {{"running", std::to_string(components_->lifecycle.running_choices())},
                   {"limit_ms", std::to_string(event.limit_ms)}});
}

void Machine::check_drained() {
  const bool over = components_->core.now.mono_us >= drain_until_us_;
  if (components_->lifecycle.running_choices() > 0 && !over) return;
  components_->core.out->stop = true;
}

}  // namespace holdfast::core
