// Breakers of workers and models that fail again and again.
#include "control/core/breakers.h"

#include <string>

#include "control/core/loads.h"
#include "control/core/registry.h"

namespace holdfast::core {

bool Breakers::breakers_allow(const Load& load) const {
  const auto running = static_cast<std::int64_t>(load.running.size());
  const auto worker = breakers_.find(load.row.worker_key);
  if (worker != breakers_.end() && !worker->second.allows(core_.now.mono_us, running)) return false;
  const auto model = registry_.models().find(load.row.model);
  if (model == registry_.models().end() || !model->second.breaker.tripped()) return true;
  std::int64_t everywhere = 0;
  for (const Load* other : loads_.all().of_model(load.row.model)) {
    everywhere += static_cast<std::int64_t>(other->running.size());
  }
  return model->second.breaker.allows(core_.now.mono_us, everywhere);
}

void Breakers::count_failure(const std::string& worker_key, const std::string& model,
                             const std::string& why) {
  if (!worker_key.empty() && breakers_[worker_key].failed(core_.config, core_.now.mono_us)) {
    breaker_opened("worker", worker_key, breakers_[worker_key], why);
  }
  const auto m = registry_.models().find(model);
  if (m != registry_.models().end() && m->second.breaker.failed(core_.config, core_.now.mono_us)) {
    breaker_opened("model", model, m->second.breaker, why);
  }
}

void Breakers::count_success(const Load& load) {
  const auto worker = breakers_.find(load.row.worker_key);
  if (worker != breakers_.end()) {
    if (worker->second.tripped()) breaker_closed("worker", load.row.worker_key);
    breakers_.erase(worker);
  }
  const auto model = registry_.models().find(load.row.model);
  if (model == registry_.models().end()) return;
  if (model->second.breaker.tripped()) breaker_closed("model", load.row.model);
  model->second.breaker.succeeded();
}

void Breakers::breaker_opened(const char* subject, const std::string& key, const Breaker& breaker,
                              const std::string& why) {
  const std::int64_t pause_ms = (breaker.open_until_us() - core_.now.mono_us) / 1000;
  ++core_.counters.breakers_opened;
  core_.timers.add(breaker.open_until_us(), TimerKind::kDispatch);
  core_.timers.add(breaker.open_until_us(), TimerKind::kPlacement);
  core_.out->write(
      InsertTransition{subject, key, "breaker closed", "breaker open", core_.now.wall_ms, 0, 0,
                       std::to_string(breaker.failures()) + " failures in a row, the last: " + why},
      Durability::kNormal);
  core_.out->note(std::string(subject) + " gets no work for a while: it fails again and again",
                  {{subject, key},
                   {"failures", std::to_string(breaker.failures())},
                   {"pause_ms", std::to_string(pause_ms)},
                   {"why", why}},
                  true);
}

void Breakers::breaker_closed(const char* subject, const std::string& key) {
  core_.out->write(InsertTransition{subject, key, "breaker open", "breaker closed",
                                    core_.now.wall_ms, 0, 0, "it works again"},
                   Durability::kNormal);
  core_.out->note(std::string(subject) + " works again", {{subject, key}});
  core_.want_dispatch = core_.want_placement = true;
}

}  // namespace holdfast::core
