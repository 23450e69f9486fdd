#pragma once
// Memory: pools, reservations of loads, pressure.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/load_table.h"
#include "control/core/models.h"
#include "control/core/workers.h"

namespace holdfast::core {

class Loads;
class Registry;

using Leaving = std::set<std::string>;  // ids of loads that count as gone

/// The memory pools of all machines, and what is reserved in them, also for workers that are
/// gone.
class MemoryPools {
 public:
  MemoryPools(Core& core, Loads& loads, Registry& registry)
      : core_(core), loads_(loads), registry_(registry) {}

  /// Frees the reservations of lost workers whose processes have had the time to end.
  void drop_due_remains();
  /// Returns what is held for this load though its worker is lost; nullptr: nothing.
  Remains* find_remains(const std::string& load_id);
  void on(const MemoryLevel& event);
  /// Bytes that loads, and workers that are gone, hold or will hold of a memory pool.
  std::int64_t reserved_in(const std::string& pool) const;
  /// Memory in the tightest of the worker's pools for a load, once the loads in `leaving` have
  /// gone.
  MemoryHeadroom memory_headroom(const Worker& worker, const Leaving& leaving = {}) const;
  /// Returns true if the load's end would make room on the worker. A load of whose pools nothing is
  /// known is only on its own worker.
  static bool takes_from(const Load& load, const Worker& worker);
  /// Returns the loads that may take from the worker's pools, and its own.
  LoadTable::Group loads_near(const Worker& worker) const;
  /// Forgets which pools a worker takes from: it is gone.
  void forget_worker(PeerId peer);
  /// Takes a worker's report. One of an older release, or one that pretends its device, names no
  /// pools: its numbers are those of its machine, or of its device, for all that have the same
  /// name.
  void hear_worker_memory(Worker& worker, const wire::MemoryReport& report);
  /// Takes the numbers of a load's report, which are the newest of its worker's pools.
  void hear_state_memory(Worker& worker, const wire::MemoryReport& report);
  /// Holds the reservation of a load that has ended for us while its process may live: it counts
  /// until the process is known to have ended, or has had the time to. One from before this start
  /// counts in every pool, as its own is not known.
  void leave_remains(const Load& load, bool in_database);
  /// Holds a reservation that the last process of the daemon still counted.
  void boot_remains(const LoadRow& row);
  /// Frees the reservations for which `gone` is true.
  void drop_remains(const std::function<bool(const Remains&)>& gone);
  /// Holds memory of a load that is on a worker and not in the registry: it was told to go, and is
  /// there until then.
  void record_remains_of(const Worker& worker, const wire::LoadedModel& held);
  /// Holds a reservation for as long again: a process that tells of the load has not ended.
  void renew_remains(const std::string& load_id);
  /// Frees what an ended process held, and ends its loads.
  void process_ended(const std::string& worker_key, const std::string& incarnation);
  /// Frees what older processes of this worker held: a newer one is here, so they have ended.
  void forget_remains(const std::string& worker_key, const std::string& but_incarnation);

  /// Memory pools of the machines, by key.
  const std::map<std::string, Pool>& pools() const { return pools_; }

 private:
  /// Other workers that take from pools with these keys.
  std::int64_t workers_sharing(const Worker& worker, const std::vector<std::string>& keys) const;
  std::int64_t reserved_in(const std::vector<std::string>& keys, std::int64_t most,
                           const Leaving& leaving, bool unsettled_alone) const;
  void count_worker(const Worker& worker);
  std::int64_t bytes_of(const wire::LoadedModel& held) const;
  void hear_memory(const wire::MemoryReport& report, const std::string& host);
  void judge_pressure(Pool& pool);
  void relieve(Pool& pool);

  Core& core_;
  Loads& loads_;
  Registry& registry_;

  std::map<std::string, Pool> pools_;                // by key
  std::map<std::string, std::set<PeerId>> workers_;  // by the key of a pool that they take from
  std::map<PeerId, std::vector<std::string>> keys_;  // of pools, by worker
  std::vector<Remains> remains_;
};

}  // namespace holdfast::core
