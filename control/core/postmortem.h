#pragma once
// Deaths of workers: what a lost worker was at, and how its process ended.

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/requests.h"

namespace holdfast::core {

class Breakers;
class Canaries;
class Fleet;
class Lifecycle;
class MemoryPools;
class Registry;

/// A worker that is gone, until the supervisor tells how it ended.
struct WorkerLoss {
  std::int64_t pid = 0;
  std::string worker_key;
  std::string incarnation;
  std::vector<std::string> models;                          // that it ran requests on
  bool suspect = false;                                     // a suspected request ran by itself
  std::vector<std::pair<ChoiceRef, std::int64_t>> running;  // with the index of that moment
  std::vector<std::string> loading;                         // names of models
};

/// Brings together the loss of a worker and the end of its process, in whichever order they are
/// told, and charges requests, models and the worker with the death.
class Postmortem {
 public:
  Postmortem(Core& core, Fleet& fleet, MemoryPools& memory, Breakers& breakers, Registry& registry,
             Canaries& canaries, Lifecycle& lifecycle)
      : core_(core),
        fleet_(fleet),
        memory_(memory),
        breakers_(breakers),
        registry_(registry),
        canaries_(canaries),
        lifecycle_(lifecycle) {}

  /// Takes what a lost worker was at: it is charged when the supervisor tells how the process
  /// ended, or at once if it has.
  void lost(WorkerLoss loss);
  void on(const WorkerExit& event);

 private:
  void blame(const WorkerExit& exit, const WorkerLoss& lost);

  Core& core_;
  Fleet& fleet_;
  MemoryPools& memory_;
  Breakers& breakers_;
  Registry& registry_;
  Canaries& canaries_;
  Lifecycle& lifecycle_;

  std::deque<WorkerLoss> lost_;
  std::deque<WorkerExit> exits_;  // of processes whose connection is not seen to be gone yet
};

}  // namespace holdfast::core
