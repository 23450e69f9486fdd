#pragma once
// Dispatch: which work goes to which worker, and what gives way for it.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/queue.h"
#include "control/core/requests.h"
#include "control/core/workers.h"

namespace holdfast::core {

class Breakers;
class Fleet;
class Lifecycle;
class Loads;
class Registry;

/// Gives the work of the queue to loads with room for it, within the bounds; shares the slots
/// between tenants and begins work of suspect workers again.
class Dispatcher {
 public:
  Dispatcher(Core& core, Lifecycle& lifecycle, Loads& loads, Registry& registry, Breakers& breakers,
             Fleet& fleet)
      : core_(core),
        lifecycle_(lifecycle),
        loads_(loads),
        registry_(registry),
        breakers_(breakers),
        fleet_(fleet) {}

  /// Gives queued choices to all loads that have room for them.
  void dispatch();
  /// Begins the work of suspect workers again elsewhere, but only on workers that have nothing else
  /// to do, and only once at each index: on a starved machine work must not go round in circles.
  void second_attempts();

 private:
  struct Freed {  // choices of a load that give way
    std::int64_t running = 0;
    std::int64_t pages = 0;
    std::int64_t pages_at_most = 0;
  };

  bool bounds_allow(const Load& load, const QueueItem& item, const Freed& freed) const;
  bool tenant_allows(const QueueItem& item) const;
  bool first_may_run(const std::vector<std::pair<std::int64_t, Load*>>& ready);
  const QueueItem* best_item(const Load& load);
  bool takes_work(const Load& load) const;
  bool dispatch_to(Load& load);
  std::int32_t rank_on_worker(const Request& request) const;
  void start_choice(Request& request, Choice& choice, Load& load);
  WorkQueue::Capacity capacity_of(const std::string& model) const;
  bool take_share(Load& load);
  std::vector<ChoiceRef> who_gives_way(const Load& load, const QueueItem& item) const;
  std::vector<Load*> idle_loads();
  bool may_begin_again(const Request& request, const Choice& choice, const Load& load);
  void begin_again(Request& request, Choice& choice, Load& load);

  Core& core_;
  Lifecycle& lifecycle_;
  Loads& loads_;
  Registry& registry_;
  Breakers& breakers_;
  Fleet& fleet_;
};

}  // namespace holdfast::core
