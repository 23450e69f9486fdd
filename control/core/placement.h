#pragma once
// Model placement: which worker loads a model, with what, and why not the others.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/models.h"
#include "control/core/workers.h"

namespace holdfast::core {

class Aliases;
class Breakers;
class Fleet;
class Lifecycle;
class Loads;
class MemoryPools;
class Nodes;
class Registry;

/// Decides which workers load a model, and which idle models make room for it.
class Placement {
 public:
  Placement(Core& core, Registry& registry, Loads& loads, MemoryPools& memory, Fleet& fleet,
            Breakers& breakers, Aliases& aliases, const Lifecycle& lifecycle, const Nodes& nodes)
      : core_(core),
        registry_(registry),
        loads_(loads),
        memory_(memory),
        fleet_(fleet),
        breakers_(breakers),
        aliases_(aliases),
        lifecycle_(lifecycle),
        nodes_(nodes) {}

  /// Looks at all models: starts the loads that are missing, and makes room for them.
  void run_placement();
  /// Findings on each connected worker for this model, the best first.
  std::vector<DeviceVerdict> survey(const Model& model) const;

 private:
  using Domains = std::map<std::string, std::int64_t>;  // replicas of a model by failure domain
  /// How the loads there are stand to a load of a model on a worker.
  struct Standing {
    bool holds = false;                  // the worker has one of it
    bool elsewhere = false;              // some worker has one that stays
    bool shares_memory = false;          // such a one takes from the worker's memory
    std::set<std::string> leaving = {};  // ids of all loads that drain
  };
  bool is_for(const Worker& worker, const Model& model) const;
  Standing standing_of(const Model& model, const Worker& worker) const;
  bool needs_file(const Model& model, const Worker& worker) const;
  std::string closed_for(const Model& model, const Worker& worker, const Standing& standing) const;
  DeviceVerdict verdict_on(const Model& model, const Worker& worker, const Domains& domains) const;
  void plan(const Model& model, const Domains& domains, DeviceVerdict& v) const;
  Domains domains_of(const Model& model) const;
  enum class Attempt { kNone, kGiven, kNoPermit };
  Attempt try_worker(Model& model, DeviceVerdict& v, bool& skip_eviction);
  void replan(Model& model, std::size_t from, std::int64_t replicas_near);
  std::int64_t loads_that_stay(const std::string& model) const;
  bool may_be_read(Model& model, std::int64_t loads);
  void reconcile_replicas(Model& model);
  bool fits_nowhere(Model& model);
  bool has_permit() const;
  bool needs_nothing(Model& model, std::int64_t replicas, std::int64_t have);
  void start_load(Model& model, Worker& worker, const DeviceVerdict& verdict);
  bool may_be_evicted(Load& load);
  bool evict_for(const Worker& worker, Model& wanting, std::int64_t bytes_needed);

  Core& core_;
  Registry& registry_;
  Loads& loads_;
  MemoryPools& memory_;
  Fleet& fleet_;
  Breakers& breakers_;
  Aliases& aliases_;
  const Lifecycle& lifecycle_;
  const Nodes& nodes_;

  std::uint64_t last_load_ = 0;
  bool bound_only_ = false;  // a worker is for bound requests alone; as of this run
};

}  // namespace holdfast::core
