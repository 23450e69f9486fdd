#pragma once
// Dispatch: which work goes to which worker, and what gives way for it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/load_table.h"
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

  /// Returns true if something changed since the last dispatch().
  bool has_work() const { return core_.want_dispatch || !core_.dispatch_models.empty(); }
  /// Gives queued choices to the loads that have room for them: of the models whose queue or loads
  /// have changed, or of all.
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
  /// A model with a queue and the turn of its next load.
  struct Line {
    const std::string* model = nullptr;
    const WorkQueue* queue = nullptr;
    LoadTable::Turn turn;
    Load* load = nullptr;
  };
  std::vector<Line> take_lines();
  bool has_bounds_of_several_models() const;
  bool go_on(Line& line) const;
  void fill(std::vector<Line> lines);
  bool first_may_run(const std::vector<Line>& lines);
  void share(const Line& line);
  const QueueItem* best_item(const Load& load);
  bool takes_work(const Load& load) const;
  void dispatch_to(Load& load);
  std::int32_t rank_on_worker(const Request& request) const;
  void start_choice(Request& request, Choice& choice, Load& load);
  WorkQueue::Capacity capacity_of(const std::string& model);
  bool take_share(Load& load);
  const QueueItem* first_within_share(const Load& load);
  std::vector<ChoiceRef> who_gives_way(const Load& load, const QueueItem& item);
  std::vector<Load*> idle_loads();
  bool may_begin_again(const Request& request, const Choice& choice, const Load& load);
  void begin_again(Request& request, Choice& choice, Load& load);

  Core& core_;
  Lifecycle& lifecycle_;
  Loads& loads_;
  Registry& registry_;
  Breakers& breakers_;
  Fleet& fleet_;
  std::map<std::string, WorkQueue::Capacity> capacities_;  // by model, of this dispatch
};

}  // namespace holdfast::core
