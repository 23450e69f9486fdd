// The model registry: states of models, and failures of their loads.
#include "control/core/registry.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/core/aliases.h"
#include "control/core/canaries.h"
#include "control/core/fleet.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"

namespace holdfast::core {

void Registry::put_model(const Model& model) {
  core_.out->write(PutModel{model.row}, Durability::kFull);
}

void Registry::set_model_state(Model& model, ModelState state, const std::string& reason) {
  if (model.row.state == state) return;
  CHECK_MSG(legal_change(model.row.state, state), "a model's states have an order");
  core_.out->write(
      InsertTransition{"model", model.row.name, std::string(model_state_name(model.row.state)),
                       std::string(model_state_name(state)), core_.now.wall_ms, 0, 0, reason},
      Durability::kFull);
  core_.out->note("model state", {{"model", model.row.name},
                                  {"from", std::string(model_state_name(model.row.state))},
                                  {"to", std::string(model_state_name(state))},
                                  {"reason", reason}});
  model.row.state = state;
  model.row.reason = reason;
  time_switch(model);
  if (has_ended(state)) set_keep_alive(model, std::nullopt);
  put_model(model);
  core_.want_aliases = core_.want_aliases || !aliases_.all().empty();
}

/// Measures how long a client that asks for a model which is not loaded waits for it.
void Registry::time_switch(Model& model) {
  switch (model.row.state) {
    case ModelState::kPlacing:
      if (model.switch_since_us == 0) model.switch_since_us = core_.now.mono_us;
      break;
    case ModelState::kReady:
      if (model.switch_since_us != 0) {
        core_.stats.model_switch.add(core_.now.mono_us - model.switch_since_us);
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

void Registry::refresh_model(Model& model, const std::string& reason) {
  constexpr ModelState kOrder[] = {ModelState::kReady, ModelState::kWarming, ModelState::kLoading,
                                   ModelState::kPlacing, ModelState::kDraining};
  const LoadTable::Group& its = loads_.all().of_model(model.row.name);
  for (const ModelState state : kOrder) {
    const bool any = std::any_of(its.begin(), its.end(), [&](const Load* its_load) {
      const Load& load = *its_load;
      // A load whose worker may still come back, or may not be believed, serves nobody.
      const auto worker = fleet_.workers().find(load.worker);
      const bool serves = worker != fleet_.workers().end() && !worker->second.quarantined;
      const ModelState now = serves ? load.row.state : ModelState::kPlacing;
      // One that serves bound requests alone is no place for new ones.
      return now == state && load.only_class.empty();
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
  if (state == ModelState::kRegistered || has_ended(state)) return;
  set_model_state(model, model.row.load_requested ? ModelState::kPlacing : ModelState::kUnloaded,
                  reason);
}

void Registry::want(Model& model) {
  if (!model.row.load_requested) {
    model.row.load_requested = true;
    put_model(model);
  }
  if (model.row.state == ModelState::kRegistered || model.row.state == ModelState::kUnloaded) {
    set_model_state(model, ModelState::kPlacing, "wanted");
  }
  // One that serves needs nothing for one more request, and takes nothing from others.
  if (model.row.state != ModelState::kReady) core_.want_placement = true;
}

void Registry::load_again(Model& model, const std::string& reason) {
  count_failures(model, 0);
  model.failed_on.clear();
  model.retry_at_us = 0;
  model.row.load_requested = true;
  const ModelState state = model.row.state;
  if (state == ModelState::kUnloaded || state == ModelState::kFailed ||
      state == ModelState::kRegistered) {
    set_model_state(model, ModelState::kPlacing, reason);
  }
  put_model(model);
  core_.want_placement = true;
}

void Registry::unload(Model& model, const std::string& reason) {
  model.row.load_requested = false;
  put_model(model);
  std::vector<std::string> ids;
  for (const Load* load : loads_.all().of_model(model.row.name)) ids.push_back(load->row.load_id);
  for (const std::string& id : ids) {
    Load& load = loads_.all().at(id);
    loads_.set_load_state(load, ModelState::kDraining, reason);
    loads_.drain_step(load);
  }
  refresh_model(model, reason);
  core_.want_placement = true;
}

void Registry::set_keep_alive(Model& model, std::optional<std::int64_t> keep_alive_ms) {
  if (model.keep_alive_ms == keep_alive_ms) return;
  core_.want_placement = true;  // it may have been idle for that long
  model.keep_alive_ms = keep_alive_ms;
  // A unit stands behind the number, as a flag that is 0 is none.
  core_.out->write(PutFlag{"keep_alive/" + model.row.name,
                           keep_alive_ms ? std::to_string(*keep_alive_ms) + " ms" : ""},
                   Durability::kFull);
}

void Registry::set_identity(Model& model, const std::string& identity) {
  if (model.identity == identity) return;
  model.identity = identity;
  core_.out->write(PutFlag{"identity/" + model.row.name, identity}, Durability::kFull);
}

void Registry::count_failures(Model& model, std::int32_t failures) {
  if (model.failures == failures) return;
  model.failures = failures;
  core_.out->write(PutFlag{"load_failures/" + model.row.name, std::to_string(failures)},
                   Durability::kFull);
}

void Registry::count_load_failure(Model& m, const std::string& worker_key,
                                  const std::string& reason, bool worker_lost) {
  const std::int32_t here = ++m.failed_on[worker_key];
  const LoadTable::Group& its = loads_.all().of_model(m.row.name);
  const bool works = std::any_of(its.begin(), its.end(), [](const Load* load) {
    return load->row.state == ModelState::kReady;
  });
  const auto tries = static_cast<std::int32_t>(core_.config.models_load_tries);
  // The file holds the same at the next try.
  const bool never = reason.rfind(errc_name(Errc::kFileInvalid), 0) == 0;
  if (!works) count_failures(m, m.failures + 1 + (never ? tries : 0));
  const std::int32_t in_row = std::max(works ? here : m.failures, 1);
  const std::int64_t backoff_ms =
      std::min(core_.config.models_load_backoff_ms << std::min(in_row - 1, 20),
               core_.config.models_load_backoff_max_ms);
  m.retry_at_us = core_.now.mono_us + backoff_ms * 1000;
  core_.timers.add(m.retry_at_us, TimerKind::kPlacement);
  if (!worker_lost)
    canaries_.canary_load_failed(m, reason);  // a kill from outside says nothing about it
  const bool others = !its.empty();
  if (m.failures < core_.config.models_load_tries || others || !m.row.load_requested) return;
  give_up(m, reason);
}

void Registry::give_up(Model& model, const std::string& reason) {
  canaries_.canary_load_failed(model, reason);  // before those end that can go elsewhere
  model.row.load_requested = false;
  set_model_state(model, ModelState::kFailed, reason);
  lifecycle_.fail_waiting(model);
  for (const std::string& name : std::exchange(model.displaced, {})) {
    const auto displaced = models_.find(name);
    if (displaced != models_.end() && displaced->second.row.state != ModelState::kFailed) {
      want(displaced->second);
    }
  }
}

void Registry::boot(const Boot& event) {
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
    if (const auto it = event.keep_alives.find(row.name); it != event.keep_alives.end()) {
      model.keep_alive_ms = std::strtoll(it->second.c_str(), nullptr, 10);
    }
    models_[row.name] = std::move(model);
  }
}

void Registry::want_if_waited_for(Model& model) {
  if (lifecycle_.waits(model.row.name) && !model.row.load_requested && !core_.paused &&
      model.row.state == ModelState::kUnloaded) {
    want(model);
  }
}

}  // namespace holdfast::core
