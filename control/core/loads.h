#pragma once
// Loads: models on workers, from the decision to load to the end.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/load_table.h"
#include "control/core/requests.h"
#include "control/core/workers.h"

namespace holdfast::core {

class Breakers;
class Fleet;
class Lifecycle;
class MemoryPools;
class Registry;

/// Models on workers, with their states. A worker reports them; placement begins them.
class Loads {
 public:
  Loads(Core& core, Registry& registry, Fleet& fleet, MemoryPools& memory, Breakers& breakers,
        Lifecycle& lifecycle)
      : core_(core),
        registry_(registry),
        fleet_(fleet),
        memory_(memory),
        breakers_(breakers),
        lifecycle_(lifecycle) {}

  /// Takes in the loads of the database, whose workers have until then to come back.
  void boot(const Boot& event, std::int64_t adoption_until_us);
  /// Returns when a ready load of this model and numerics class last ended; nullopt: none did.
  std::optional<std::int64_t> class_left_us(const std::string& model,
                                            const std::string& numerics_class) const;
  void worker_message(PeerId peer, const wire::StateReport& m);
  /// Writes the row of a load.
  void put_load(const Load& load);
  /// Changes the state of a load and writes it.
  void set_load_state(Load& load, ModelState state, const std::string& reason);
  /// Unloads a draining load without work.
  void drain_step(Load& load);
  /// Takes a running choice off its load: its slot and pages are free again.
  void leave_worker(Choice& choice, ChoiceRef ref);
  /// Ends a load that runs nothing. Does nothing if it is unknown.
  void end_load(const std::string& load_id, ModelState state, const std::string& reason);
  /// Ends a load that failed or was lost; what it runs is queued again.
  void load_lost(Load& load, const std::string& reason);
  /// Ends a load whose worker did not come back, or does not say how far it is.
  void load_due(const std::string& id);
  /// Returns true if the load is ready, runs nothing, and nothing of its model waits.
  bool is_idle(const Load& load) const;

  LoadTable& all() { return loads_; }
  const LoadTable& all() const { return loads_; }

 private:
  void given_up(Load& load, const std::string& reason);
  using ClassKey = std::pair<std::string, std::string>;  // model name, numerics class

  void load_failed(Load& load, const std::string& reason);
  void check_drift(const Load& load);

  Core& core_;
  Registry& registry_;
  Fleet& fleet_;
  MemoryPools& memory_;
  Breakers& breakers_;
  Lifecycle& lifecycle_;

  LoadTable loads_;
  std::map<ClassKey, std::int64_t> class_left_us_;  // when a ready load of it last ended
};

}  // namespace holdfast::core
