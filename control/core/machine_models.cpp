// The model registry: registration, states of models and loads, failures of loads.
#include <algorithm>
#include <cmath>
#include <utility>

#include "control/core/drift.h"
#include "control/core/golden.h"
#include "control/core/machine.h"
#include "shared/base/roots.h"

namespace holdfast::core {
namespace {

bool ended(ModelState state) {
  return state == ModelState::kUnloaded || state == ModelState::kFailed;
}

wire::Refusal is_alias(const std::string& name) {
  return refuse(Errc::kConflict,
                "models.add: \"" + name + "\" is an alias; take another name or remove the alias");
}

}  // namespace

// ---- registration

void Machine::on(const OpAddModel& event) {
  if (event.name.empty() || event.name.size() > 128 || event.path.empty()) {
    op_refused(event.peer, event.tag,
               refuse(Errc::kUsage, "models.add: expected a name of at most 128 bytes and a path"));
    return;
  }
  if (aliases_.count(event.name) > 0)
    return op_refused(event.peer, event.tag, is_alias(event.name));
  if (const auto allowed = allowed_by_roots(event.path, config_.model_roots); !allowed) {
    return op_refused(event.peer, event.tag,
                      refuse(allowed.error().code, "models.add: " + allowed.error().what));
  }
  Job job;
  job.inspect = true;
  job.add = event;
  job.deadline_us = now_.mono_us + config_.ingress_inspect_timeout_ms * 1000;
  start_job(std::move(job));
}

void Machine::on(const InspectedEvent& event) {
  const auto it = jobs_.find(event.inspected.job);
  if (it == jobs_.end() || !it->second.inspect || it->second.helper != event.peer) return;
  const Job job = it->second;
  end_job(job.id);
  if (!event.inspected.ok) {
    op_refused(job.add.peer, job.add.tag, event.inspected.refusal);
    return;
  }
  if (job.verify) {
    op_done(job.add.peer, job.add.tag, "models.verify", verified_key(event));
  } else {
    add_inspected(job, event);
  }
}

void Machine::add_inspected(const Job& job, const InspectedEvent& event) {
  const OpAddModel& add = job.add;
  // An alias may have been made while the file was read.
  if (aliases_.count(add.name) > 0) return op_refused(add.peer, add.tag, is_alias(add.name));
  ModelRow row = event.row;
  row.name = add.name;
  row.path = add.path;
  row.sha = event.inspected.model_sha;
  row.size = event.inspected.size;
  row.mtime_ns = event.inspected.mtime_ns;
  row.options = add.options;
  row.created_ms = now_.wall_ms;
  const auto existing = models_.find(add.name);
  if (existing != models_.end()) {
    const ModelRow& old = existing->second.row;
    const bool used = std::any_of(loads_.begin(), loads_.end(), [&](const auto& item) {
      return item.second.row.model == add.name;
    });
    const bool waits =
        unread_ > 0 ||  // it is not known yet which models those want
        std::any_of(requests_.all().begin(), requests_.all().end(), [&](const auto& item) {
          return !item.second.terminal() && item.second.row.model == add.name;
        });
    const bool same_file = old.sha == row.sha;
    if (!same_file && (used || waits)) {
      op_refused(
          add.peer, add.tag,
          refuse(Errc::kConflict, "model \"" + add.name + "\" is in use with another file (" +
                                      old.path + "); unload it first or take another name"));
      return;
    }
    row.created_ms = old.created_ms;
    row.load_requested = old.load_requested;
    row.last_used_ms = old.last_used_ms;
    if (same_file) {
      // The plan of an existing load stays; new numbers take effect with the next one.
      row.state = old.state;
      row.reason = old.reason;
    }
  }
  row.load_requested = row.load_requested || add.load;
  Model& model = models_[add.name];
  const bool fresh = model.row.name.empty();
  model.row = row;
  set_identity(model, event.inspected.identity);
  out_->write(PutModelBlobs{row.sha, event.inspected.tokenizer, event.inspected.detokenizer},
              Durability::kFull);
  put_model(model);
  if (fresh) {
    out_->write(InsertTransition{"model", add.name, "", "registered", now_.wall_ms, 0, 0, add.path},
                Durability::kFull);
  }
  if (add.load) want(model);
  op_done(add.peer, add.tag, "models.add", add.name);
}

void Machine::on(const OpModel& event) {
  const auto it = models_.find(event.name);
  if (it == models_.end()) {
    op_refused(event.peer, event.tag,
               refuse(Errc::kModelNotFound, "model \"" + event.name + "\" is not registered"));
    return;
  }
  Model& model = it->second;
  if (event.verb == "models.verify") return verify(event, model);
  if (event.verb == "models.load") {
    load_again(model, "asked by operator");
  } else if (event.verb == "models.unload") {
    unload(model);
  } else if (event.verb == "models.pin" || event.verb == "models.unpin") {
    model.pinned = event.verb == "models.pin";
    out_->write(PutFlag{"pin/" + event.name, model.pinned ? "1" : "0"}, Durability::kFull);
    want_placement_ = true;
  } else {
    const bool loaded = std::any_of(loads_.begin(), loads_.end(), [&](const auto& item) {
      return item.second.row.model == event.name;
    });
    const bool waits =
        unread_ > 0 ||  // it is not known yet which models those want
        std::any_of(requests_.all().begin(), requests_.all().end(), [&](const auto& item) {
          return !item.second.terminal() && item.second.row.model == event.name;
        });
    if (loaded || waits) {
      op_refused(event.peer, event.tag,
                 refuse(Errc::kConflict, "model \"" + event.name + "\" is " +
                                             (loaded ? "loaded; unload it first"
                                                     : "wanted by "
                                                       "requests that have not ended")));
      return;
    }
    if (const std::string alias = alias_with(event.name); !alias.empty()) {
      op_refused(event.peer, event.tag,
                 refuse(Errc::kConflict, "model \"" + event.name + "\" is part of alias \"" +
                                             alias + "\"; change the alias first"));
      return;
    }
    out_->write(DeleteModel{event.name}, Durability::kFull);
    if (model.pinned) out_->write(PutFlag{"pin/" + event.name, "0"}, Durability::kFull);
    set_identity(model, {});
    count_failures(model, 0);
    out_->write(
        InsertTransition{"model", event.name, std::string(model_state_name(model.row.state)),
                         "removed", now_.wall_ms, 0, 0, "asked by operator"},
        Durability::kFull);
    models_.erase(it);
  }
  op_done(event.peer, event.tag, event.verb, event.name);
}

// ---- states

void Machine::put_model(const Model& model) {
  out_->write(PutModel{model.row}, Durability::kFull);
}

void Machine::put_load(const Load& load) {
  out_->write(PutLoad{load.row}, Durability::kFull);
}

void Machine::set_model_state(Model& model, ModelState state, const std::string& reason) {
  if (model.row.state == state) return;
  CHECK_MSG(legal_change(model.row.state, state), "a model's states have an order");
  out_->write(
      InsertTransition{"model", model.row.name, std::string(model_state_name(model.row.state)),
                       std::string(model_state_name(state)), now_.wall_ms, 0, 0, reason},
      Durability::kFull);
  out_->note("model state", {{"model", model.row.name},
                             {"from", std::string(model_state_name(model.row.state))},
                             {"to", std::string(model_state_name(state))},
                             {"reason", reason}});
  model.row.state = state;
  model.row.reason = reason;
  time_switch(model);
  put_model(model);
  want_aliases_ = want_aliases_ || !aliases_.empty();
}

/// Measures how long a client that asks for a model which is not loaded waits for it.
void Machine::time_switch(Model& model) {
  switch (model.row.state) {
    case ModelState::kPlacing:
      if (model.switch_since_us == 0) model.switch_since_us = now_.mono_us;
      break;
    case ModelState::kReady:
      if (model.switch_since_us != 0) {
        stats_.model_switch.add(now_.mono_us - model.switch_since_us);
      }
      model.switch_since_us = 0;
      break;
    case ModelState::kUnloaded:
    case ModelState::kFailed:
      model.switch_since_us = 0;
      break;
    default:
      break;
  }
}

void Machine::set_load_state(Load& load, ModelState state, const std::string& reason) {
  if (load.row.state == state) return;
  const auto worker = workers_.find(load.worker);
  std::int64_t before = 0;
  std::int64_t after = 0;
  if (worker != workers_.end()) {
    before = std::exchange(worker->second.free_at_change, worker->second.hello.memory.free);
    after = worker->second.hello.memory.free;
  }
  out_->write(
      InsertTransition{"load", load.row.load_id, std::string(model_state_name(load.row.state)),
                       std::string(model_state_name(state)), now_.wall_ms, before, after, reason},
      Durability::kFull);
  if (load.row.state == ModelState::kReady) {
    class_left_us_[{load.row.model, load.row.numerics_class}] = now_.mono_us;
  }
  load.row.state = state;
  load.row.reason = reason;
  if (state == ModelState::kReady) {
    load.row.ready_ms = now_.wall_ms;
    load.ready_us = now_.mono_us;
  }
  if (ended(state)) load.row.ended_ms = now_.wall_ms;
  put_load(load);
}

/// Sets the model's state to that of the furthest of its loads.
void Machine::refresh_model(Model& model, const std::string& reason) {
  constexpr ModelState kOrder[] = {ModelState::kReady, ModelState::kWarming, ModelState::kLoading,
                                   ModelState::kPlacing, ModelState::kDraining};
  for (const ModelState state : kOrder) {
    const bool any = std::any_of(loads_.begin(), loads_.end(), [&](const auto& item) {
      const Load& load = item.second;
      // A load whose worker may still come back, or may not be believed, serves nobody.
      const auto worker = workers_.find(load.worker);
      const bool serves = worker != workers_.end() && !worker->second.quarantined;
      const ModelState now = serves ? load.row.state : ModelState::kPlacing;
      return load.row.model == model.row.name && now == state;
    });
    if (!any) continue;
    // From outside, loading begins as soon as a worker was told.
    if (model.row.state != state && !legal_change(model.row.state, state)) {
      set_model_state(model, ModelState::kPlacing, reason);
    }
    set_model_state(model, state, reason);
    return;
  }
  const ModelState state = model.row.state;
  if (state == ModelState::kRegistered || ended(state)) return;
  set_model_state(model, model.row.load_requested ? ModelState::kPlacing : ModelState::kUnloaded,
                  reason);
}

void Machine::want(Model& model) {
  if (!model.row.load_requested) {
    model.row.load_requested = true;
    put_model(model);
  }
  if (model.row.state == ModelState::kRegistered || model.row.state == ModelState::kUnloaded) {
    set_model_state(model, ModelState::kPlacing, "wanted");
  }
  want_placement_ = true;
}

void Machine::unload(Model& model) {
  model.row.load_requested = false;
  put_model(model);
  std::vector<std::string> ids;
  for (auto& [id, load] : loads_) {
    if (load.row.model == model.row.name) ids.push_back(id);
  }
  for (const std::string& id : ids) {
    Load& load = loads_.at(id);
    set_load_state(load, ModelState::kDraining, "asked to unload");
    drain_step(load);
  }
  refresh_model(model, "asked to unload");
  want_placement_ = true;
}

/// Stores what tells the model's file from another one with the same size and time of change.
void Machine::set_identity(Model& model, const std::string& identity) {
  if (model.identity == identity) return;
  model.identity = identity;
  out_->write(PutFlag{"identity/" + model.row.name, identity}, Durability::kFull);
}

/// Stores the failed loads in a row, over restarts of the daemon too, which a load may take down
/// with it.
void Machine::count_failures(Model& model, std::int32_t failures) {
  if (model.failures == failures) return;
  model.failures = failures;
  out_->write(PutFlag{"load_failures/" + model.row.name, std::to_string(failures)},
              Durability::kFull);
}

/// Unloads a draining load without work.
void Machine::drain_step(Load& load) {
  if (load.row.state != ModelState::kDraining || !load.running.empty()) return;
  out_->send(load.worker, wire::Unload{load.row.load_id});
}

void Machine::end_load(const std::string& load_id, ModelState state, const std::string& reason) {
  const auto it = loads_.find(load_id);
  if (it == loads_.end()) return;
  Load& load = it->second;
  CHECK_MSG(load.running.empty(), "work leaves a load before the load ends");
  const auto left = std::find_if(remains_.begin(), remains_.end(),
                                 [&](const Remains& r) { return r.row.load_id == load_id; });
  if (left == remains_.end()) load.row.bytes = 0;
  set_load_state(load, state, reason);
  if (left != remains_.end()) left->row = load.row;
  if (const auto worker = workers_.find(load.worker); worker != workers_.end()) {
    worker->second.loads.erase(load_id);
  }
  const std::string name = load.row.model;
  loads_.erase(it);
  want_placement_ = true;
  if (const auto model = models_.find(name); model != models_.end()) {
    refresh_model(model->second, reason);
  }
}

void Machine::load_failed(Load& load, const std::string& reason) {
  const std::string name = load.row.model;
  // Where another worker holds the same model, the failure is not the model's fault.
  const bool works_elsewhere = std::any_of(loads_.begin(), loads_.end(), [&](const auto& item) {
    const LoadRow& other = item.second.row;
    return other.model == name && other.state == ModelState::kReady &&
           other.worker_key != load.row.worker_key;
  });
  if (works_elsewhere) count_failure(load.row.worker_key, {}, "load of " + name + ": " + reason);
  const std::string key = load.row.worker_key;
  load_lost(load, reason);
  if (const auto model = models_.find(name); model != models_.end()) {
    count_load_failure(model->second, key, reason);
  }
}

/// Ends a load that failed or was lost; what it runs is queued again.
void Machine::load_lost(Load& load, const std::string& reason) {
  const std::string id = load.row.load_id;
  if (load.worker != 0) out_->send(load.worker, wire::Unload{id});
  out_->note("load failed", {{"model", load.row.model}, {"load", id}, {"reason", reason}}, true);
  for (const ChoiceRef& ref : std::set<ChoiceRef>(load.running)) {
    Request* request = requests_.by_seq(ref.seq);
    CHECK(request != nullptr);
    Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
    if (choice.phase == ChoicePhase::kRunning) requeue(*request, choice, "load failed");
  }
  end_load(id, ModelState::kFailed, reason);
}

/// Uses up a try, whatever the reason. The next one waits, and there is a last one, also where the
/// worker was lost each time.
void Machine::count_load_failure(Model& m, const std::string& worker_key, const std::string& reason,
                                 bool worker_lost) {
  const std::int32_t here = ++m.failed_on[worker_key];
  const bool works = std::any_of(loads_.begin(), loads_.end(), [&](const auto& item) {
    return item.second.row.model == m.row.name && item.second.row.state == ModelState::kReady;
  });
  const auto tries = static_cast<std::int32_t>(config_.models_load_tries);
  // The file holds the same at the next try.
  const bool never = reason.rfind(errc_name(Errc::kFileInvalid), 0) == 0;
  if (!works) count_failures(m, m.failures + 1 + (never ? tries : 0));
  const std::int32_t in_row = std::max(works ? here : m.failures, 1);
  const std::int64_t backoff_ms =
      std::min(config_.models_load_backoff_ms << std::min(in_row - 1, 20),
               config_.models_load_backoff_max_ms);
  m.retry_at_us = now_.mono_us + backoff_ms * 1000;
  timers_.add(m.retry_at_us, TimerKind::kPlacement);
  if (!worker_lost) canary_load_failed(m, reason);  // a kill from outside says nothing about it
  const bool others = std::any_of(loads_.begin(), loads_.end(), [&](const auto& item) {
    return item.second.row.model == m.row.name;
  });
  if (m.failures < config_.models_load_tries || others || !m.row.load_requested) return;
  give_up(m, reason);
}

/// Gives up a model that nobody loads: requests that wait for it end, and models that made room for
/// it come back.
void Machine::give_up(Model& model, const std::string& reason) {
  canary_load_failed(model, reason);  // before those end that can go elsewhere
  model.row.load_requested = false;
  set_model_state(model, ModelState::kFailed, reason);
  fail_waiting(model);
  for (const std::string& name : std::exchange(model.displaced, {})) {
    const auto displaced = models_.find(name);
    if (displaced != models_.end() && displaced->second.row.state != ModelState::kFailed) {
      want(displaced->second);
    }
  }
}

/// Ends the requests that nobody will serve with the reason, instead of letting them wait for ever.
void Machine::fail_waiting(Model& model) {
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

/// Takes the numbers of a load's report, which are the newest of its worker's pools.
void Machine::hear_state_memory(Worker& worker, const wire::MemoryReport& report) {
  if (report.free <= 0 && report.pools.empty()) return;
  if (report.at_us != 0 && report.at_us < worker.hello.memory.at_us) return;  // HELLO was newer
  wire::MemoryReport now = worker.hello.memory;
  now.free = report.free;
  now.at_us = report.at_us;
  if (!report.pools.empty()) {
    now.pools = report.pools;
  } else if (now.pools.size() == 1 && now.pools[0].available >= 0) {
    now.pools[0].available = report.free;
  }
  hear_worker_memory(worker, now);
}

void Machine::worker_message(PeerId peer, const wire::StateReport& m) {
  const auto it = loads_.find(m.model.load_id);
  Worker& worker = workers_.at(peer);
  const bool has_memory = m.model.state != "unloaded" && m.model.state != "failed";
  if (!has_memory) {
    drop_remains([&](const Remains& r) { return r.row.load_id == m.model.load_id; });
  }
  if (it == loads_.end() || it->second.worker != peer) {
    if (has_memory) {
      out_->send(peer, wire::Unload{m.model.load_id});
      renew_remains(m.model.load_id);
    }
    hear_state_memory(worker, m.model.memory);
    return;
  }
  Load& load = it->second;
  const ModelState state = model_state_from_name(m.model.state);
  load.memory = m.model.memory;
  load.memory.pools.clear();
  load.settled = load.settled || state == ModelState::kReady;
  hear_state_memory(worker, m.model.memory);
  load.progress = m.model.progress;
  load.deadline_us = now_.mono_us + config_.models_load_timeout_ms * 1000;
  timers_.add_keyed(load.deadline_us, TimerKind::kLoad, load.row.load_id);
  if (state == ModelState::kUnloaded || state == ModelState::kFailed) {
    if (load.row.state == ModelState::kDraining && load.running.empty()) {
      end_load(m.model.load_id, ModelState::kUnloaded,
               m.model.reason.empty() ? "unloaded" : m.model.reason);
    } else {
      load_failed(load, m.model.reason.empty() ? "the worker gave it up" : m.model.reason);
    }
    return;
  }
  if (load.row.state == ModelState::kDraining) {
    drain_step(load);
    return;
  }
  if (state == ModelState::kReady) {
    load.row.numerics_class = m.model.numerics_class;
    load.row.slots = m.model.slots;
    load.row.pages = m.model.pages_total;
    load.row.page_tokens = m.model.page_tokens;
    load.row.context = m.model.context;
  }
  set_load_state(load, state, m.model.reason);
  const auto model = models_.find(load.row.model);
  if (model == models_.end()) return;
  if (state == ModelState::kReady) {
    count_failures(model->second, 0);
    model->second.failed_on.erase(load.row.worker_key);
    if (!m.model.identity.empty()) set_identity(model->second, m.model.identity);
    model->second.displaced.clear();
    check_drift(load);
  }
  refresh_model(model->second, m.model.reason.empty()
                                   ? "reported by worker " + worker.hello.worker_key
                                   : m.model.reason);
  // Ready and idle: it may have to make room for a model that could not be placed while it loaded.
  want_dispatch_ = want_placement_ = true;
}

/// Compares what the worker measured with what was reserved: a formula that is wrong must be seen.
void Machine::check_drift(const Load& load) {
  if (!memory_drifts(load, config_)) return;
  ++counters_.envelope_drifts;
  out_->note(
      "a load took another amount of memory than was reserved for it",
      {{"model", load.row.model},
       {"load", load.row.load_id},
       {"reserved", std::to_string(load.row.bytes)},
       {"taken", std::to_string(load.memory.taken)},
       {"percent", std::to_string(static_cast<std::int64_t>(std::lround(drift_percent(load))))}},
      true);
}

}  // namespace holdfast::core
