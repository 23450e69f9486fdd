#include "control/core/idle_unloads.h"

#include <algorithm>
#include <string>
#include <utility>

#include "control/core/aliases.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/registry.h"

namespace holdfast::core {

void IdleUnloads::run() {
  // Requests that a start has not read yet may want any model.
  if (core_.draining || core_.paused || lifecycle_.unread() > 0) return;
  for (auto& [name, model] : registry_.models()) look_at(model);
}

void IdleUnloads::run(const std::set<std::string>& models) {
  if (core_.draining || core_.paused || lifecycle_.unread() > 0) return;
  for (const std::string& name : models) {
    const auto model = registry_.models().find(name);
    if (model != registry_.models().end()) look_at(model->second);
  }
}

void IdleUnloads::look_at(Model& model) {
  const auto time_us = idle_time_us(model);
  if (!time_us) return;
  const auto due = due_us(model, *time_us);
  if (!due) return;
  if (*due > core_.now.mono_us) {
    // Placement looks often; one timer for each time is enough.
    if (std::exchange(model.idle_timer_us, *due) != *due) {
      core_.timers.add(*due, TimerKind::kPlacement);
    }
    return;
  }
  ++core_.counters.idle_unloads;
  registry_.unload(model, "unused for " + std::to_string(*time_us / 1'000'000) + " s");
}

std::optional<std::int64_t> IdleUnloads::unloads_at_ms(const Model& model) const {
  const auto time_us = idle_time_us(model);
  if (!time_us || model.row.state != ModelState::kReady) return std::nullopt;
  const std::int64_t at_us = due_us(model, *time_us).value_or(core_.now.mono_us + *time_us);
  return core_.now.wall_ms + std::max<std::int64_t>(at_us - core_.now.mono_us, 0) / 1000;
}

std::optional<std::int64_t> IdleUnloads::idle_time_us(const Model& model) const {
  if (model.pinned || is_compared(model)) return std::nullopt;
  if (model.keep_alive_ms) {
    if (*model.keep_alive_ms < 0) return std::nullopt;
    return *model.keep_alive_ms * 1000;
  }
  const std::int64_t seconds = core_.config.model(model.row.name).idle_unload_s;
  if (seconds == 0) return std::nullopt;
  return seconds * 1'000'000;
}

std::optional<std::int64_t> IdleUnloads::due_us(const Model& model,
                                                std::int64_t idle_time_us) const {
  if (model.row.state != ModelState::kReady) return std::nullopt;
  std::int64_t idle_us = 0;
  std::int64_t ready_us = 0;
  for (const Load* load : loads_.all().of_model(model.row.name)) {
    if (load->row.state == ModelState::kDraining) continue;
    if (!loads_.is_idle(*load)) return std::nullopt;
    idle_us = std::max({idle_us, load->idle_since_us, load->ready_us});
    ready_us = std::max(ready_us, load->ready_us);
  }
  return std::max(idle_us + idle_time_us,
                  ready_us + core_.config.model(model.row.name).dwell_ms * 1000);
}

/// True if a canary compares the model with another one: without traffic it must not go.
bool IdleUnloads::is_compared(const Model& model) const {
  return std::any_of(aliases_.all().begin(), aliases_.all().end(), [&](const auto& item) {
    const Alias& alias = item.second;
    if (!alias.canary) return false;
    return alias.canary->row.model == model.row.name ||
           std::any_of(alias.row.targets.begin(), alias.row.targets.end(),
                       [&](const AliasTarget& target) { return target.model == model.row.name; });
  });
}

}  // namespace holdfast::core
