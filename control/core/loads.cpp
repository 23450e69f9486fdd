// Loads: their states, their reports and their ends.
#include "control/core/loads.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "control/core/breakers.h"
#include "control/core/drift.h"
#include "control/core/fleet.h"
#include "control/core/lifecycle.h"
#include "control/core/memory_pools.h"
#include "control/core/registry.h"

namespace holdfast::core {

void Loads::put_load(const Load& load) {
  core_.out->write(PutLoad{load.row}, Durability::kFull);
}

void Loads::set_load_state(Load& load, ModelState state, const std::string& reason) {
  if (load.row.state == state) return;
  const auto worker = fleet_.workers().find(load.worker);
  std::int64_t before = 0;
  std::int64_t after = 0;
  if (worker != fleet_.workers().end()) {
    before = std::exchange(worker->second.free_at_change, worker->second.hello.memory.free);
    after = worker->second.hello.memory.free;
  }
  core_.out->write(
      InsertTransition{"load", load.row.load_id, std::string(model_state_name(load.row.state)),
                       std::string(model_state_name(state)), core_.now.wall_ms, before, after,
                       reason},
      Durability::kFull);
  if (load.row.state == ModelState::kReady) {
    class_left_us_[{load.row.model, load.row.numerics_class}] = core_.now.mono_us;
  }
  loads_.set_state(load, state);
  load.row.reason = reason;
  if (state == ModelState::kReady) {
    load.row.ready_ms = core_.now.wall_ms;
    load.ready_us = core_.now.mono_us;
  }
  if (has_ended(state)) load.row.ended_ms = core_.now.wall_ms;
  put_load(load);
}

void Loads::drain_step(Load& load) {
  if (load.row.state != ModelState::kDraining || !load.running.empty()) return;
  core_.out->send(load.worker, wire::Unload{load.row.load_id});
}

void Loads::leave_worker(Choice& choice, ChoiceRef ref) {
  const auto it = loads_.find(choice.load_id);
  if (it == loads_.end()) return;
  Load& load = it->second;
  if (!loads_.end_run(load, ref)) return;
  load.pages_used -= choice.pages;
  choice.pages = 0;
  if (load.running.empty()) {
    load.alone = false;
    load.idle_since_us = core_.now.mono_us;
    core_.usage_changed.insert(load.row.model);  // idle: it may have to make room for another one
  }
  drain_step(load);
  core_.dispatch_models.insert(load.row.model);
}

void Loads::end_load(const std::string& load_id, ModelState state, const std::string& reason) {
  const auto it = loads_.find(load_id);
  if (it == loads_.end()) return;
  Load& load = it->second;
  CHECK_MSG(load.running.empty(), "work leaves a load before the load ends");
  Remains* left = memory_.find_remains(load_id);
  if (left == nullptr) load.row.bytes = 0;
  set_load_state(load, state, reason);
  if (left != nullptr) left->row = load.row;
  if (const auto worker = fleet_.workers().find(load.worker); worker != fleet_.workers().end()) {
    worker->second.loads.erase(load_id);
  }
  const std::string name = load.row.model;
  loads_.erase(load_id);
  core_.want_placement = true;
  if (const auto model = registry_.models().find(name); model != registry_.models().end()) {
    registry_.refresh_model(model->second, reason);
  }
}

void Loads::load_failed(Load& load, const std::string& reason) {
  const std::string name = load.row.model;
  // Where another worker holds the same model, the failure is not the model's fault.
  const LoadTable::Group& its = loads_.of_model(name);
  const bool works_elsewhere = std::any_of(its.begin(), its.end(), [&](const Load* other) {
    return other->row.state == ModelState::kReady && other->row.worker_key != load.row.worker_key;
  });
  if (works_elsewhere)
    breakers_.count_failure(load.row.worker_key, {}, "load of " + name + ": " + reason);
  const std::string key = load.row.worker_key;
  load_lost(load, reason);
  if (const auto model = registry_.models().find(name); model != registry_.models().end()) {
    registry_.count_load_failure(model->second, key, reason);
  }
}

void Loads::load_lost(Load& load, const std::string& reason) {
  const std::string id = load.row.load_id;
  if (load.worker != 0) core_.out->send(load.worker, wire::Unload{id});
  core_.out->note("load failed", {{"model", load.row.model}, {"load", id}, {"reason", reason}},
                  true);
  for (const ChoiceRef& ref : std::set<ChoiceRef>(load.running)) {
    Request* request = lifecycle_.requests().by_seq(ref.seq);
    CHECK(request != nullptr);
    Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
    if (choice.phase == ChoicePhase::kRunning) lifecycle_.requeue(*request, choice, "load failed");
  }
  end_load(id, ModelState::kFailed, reason);
}

void Loads::load_due(const std::string& id) {
  const auto load = loads_.find(id);
  if (load == loads_.end() || load->second.deadline_us > core_.now.mono_us) return;
  const ModelState state = load->second.row.state;
  if (load->second.worker == 0) {
    memory_.leave_remains(load->second, true);
    end_load(id, ModelState::kUnloaded, "its worker is gone");
    return;
  }
  if (state == ModelState::kReady || state == ModelState::kDraining) return;
  memory_.leave_remains(load->second, true);  // its worker may still be loading
  load_failed(load->second, "no report from the worker while loading");
}

bool Loads::is_idle(const Load& load) const {
  if (load.row.state != ModelState::kReady || !load.running.empty()) return false;
  return !lifecycle_.waits(load.row.model);
}

/// The worker holds the load no more.
void Loads::given_up(Load& load, const std::string& reason) {
  if (load.row.state == ModelState::kDraining && load.running.empty()) {
    return end_load(std::string(load.row.load_id), ModelState::kUnloaded,
                    reason.empty() ? "unloaded" : reason);
  }
  load_failed(load, reason.empty() ? "the worker gave it up" : reason);
}

void Loads::worker_message(PeerId peer, const wire::StateReport& m) {
  const auto it = loads_.find(m.model.load_id);
  Worker& worker = fleet_.workers().at(peer);
  const bool has_memory = m.model.state != "unloaded" && m.model.state != "failed";
  if (!has_memory) {
    memory_.drop_remains([&](const Remains& r) { return r.row.load_id == m.model.load_id; });
  }
  if (it == loads_.end() || it->second.worker != peer) {
    if (has_memory) {
      core_.out->send(peer, wire::Unload{m.model.load_id});
      memory_.renew_remains(m.model.load_id);
    }
    memory_.hear_state_memory(worker, m.model.memory);
    return;
  }
  Load& load = it->second;
  const ModelState state = model_state_from_name(m.model.state);
  load.memory = m.model.memory;
  load.memory.pools.clear();
  load.settled = load.settled || state == ModelState::kReady;
  memory_.hear_state_memory(worker, m.model.memory);
  load.progress = m.model.progress;
  load.deadline_us = core_.now.mono_us + core_.config.models_load_timeout_ms * 1000;
  core_.timers.add_keyed(load.deadline_us, TimerKind::kLoad, load.row.load_id);
  if (state == ModelState::kUnloaded || state == ModelState::kFailed) {
    return given_up(load, m.model.reason);
  }
  if (load.row.state == ModelState::kDraining) {
    drain_step(load);
    return;
  }
  if (state == ModelState::kReady) {
    load.row.numerics_class = m.model.numerics_class;
    loads_.set_slots(load, m.model.slots);
    load.row.pages = m.model.pages_total;
    load.row.page_tokens = m.model.page_tokens;
    load.row.context = m.model.context;
  }
  set_load_state(load, state, m.model.reason);
  const auto model = registry_.models().find(load.row.model);
  if (model == registry_.models().end()) return;
  if (state == ModelState::kReady) {
    registry_.count_failures(model->second, 0);
    model->second.failed_on.erase(load.row.worker_key);
    if (!m.model.identity.empty()) registry_.set_identity(model->second, m.model.identity);
    model->second.displaced.clear();
    check_drift(load);
  }
  registry_.refresh_model(model->second, m.model.reason.empty()
                                             ? "reported by worker " + worker.hello.worker_key
                                             : m.model.reason);
  // Ready and idle: it may have to make room for a model that could not be placed while it loaded.
  core_.want_dispatch = core_.want_placement = true;
}

/// Compares what the worker measured with what was reserved: a formula that is wrong must be seen.
void Loads::check_drift(const Load& load) {
  if (!memory_drifts(load, core_.config)) return;
  ++core_.counters.envelope_drifts;
  core_.out->note(
      "a load took another amount of memory than was reserved for it",
      {{"model", load.row.model},
       {"load", load.row.load_id},
       {"reserved", std::to_string(load.row.bytes)},
       {"taken", std::to_string(load.memory.taken)},
       {"percent", std::to_string(static_cast<std::int64_t>(std::lround(drift_percent(load))))}},
      true);
}

void Loads::boot(const Boot& event, std::int64_t adoption_until_us) {
  for (const LoadRow& row : event.loads) {
    if (row.ended_ms != 0) {
      memory_.boot_remains(row);
      continue;
    }
    Load load;
    load.row = row;
    load.deadline_us = adoption_until_us;
    if (row.state == ModelState::kReady) load.ready_us = core_.now.mono_us;
    load.settled = row.state == ModelState::kReady || row.state == ModelState::kDraining;
    loads_.insert(std::move(load));
  }
}

std::optional<std::int64_t> Loads::class_left_us(const std::string& model,
                                                 const std::string& numerics_class) const {
  const auto left = class_left_us_.find({model, numerics_class});
  if (left == class_left_us_.end()) return std::nullopt;
  return left->second;
}

}  // namespace holdfast::core
