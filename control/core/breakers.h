#pragma once
// Breakers of workers and models that fail again and again.

#include <map>
#include <string>

#include "control/core/breaker.h"
#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/workers.h"

namespace holdfast::core {

class Loads;
class Registry;

/// Breakers of workers that failed; those of models are in the registry.
class Breakers {
 public:
  Breakers(Core& core, Registry& registry, Loads& loads)
      : core_(core), registry_(registry), loads_(loads) {}

  /// Returns true if the breakers of the load's worker and model let it have one more choice.
  bool breakers_allow(const Load& load) const;
  /// Counts a failure against the worker and against the model. One of the two is to blame; the
  /// other is trusted again by its success elsewhere.
  void count_failure(const std::string& worker_key, const std::string& model,
                     const std::string& why);
  /// Counts a success: the breakers of the load's worker and model close.
  void count_success(const Load& load);

  /// Breaker of a worker key; a new one if it has not failed.
  Breaker of_worker(const std::string& worker_key) const {
    const auto it = breakers_.find(worker_key);
    return it == breakers_.end() ? Breaker() : it->second;
  }
  bool has(const std::string& worker_key) const { return breakers_.count(worker_key) > 0; }
  void forget(const std::string& worker_key) { breakers_.erase(worker_key); }

 private:
  void breaker_opened(const char* subject, const std::string& key, const Breaker& breaker,
                      const std::string& why);
  void breaker_closed(const char* subject, const std::string& key);

  Core& core_;
  Registry& registry_;
  Loads& loads_;

  std::map<std::string, Breaker> breakers_;  // of workers that failed, by key
};

}  // namespace holdfast::core
