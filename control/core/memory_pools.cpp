// Memory: one pool for everything that takes from it, whichever worker, device or process that is.
// Each load is decided against what the loads decided before it leave, and against what its machine
// has available. Where memory is short nothing is loaded, and idle models are unloaded.
#include "control/core/memory_pools.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/core/loads.h"
#include "control/core/registry.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kForgottenUs =
    600'000'000;  // a pool that nobody has reported for so long is forgotten

/// Bytes that loads leave available in a pool; 0 where it does not say what it has.
std::int64_t floor_of(const MemoryPool& pool, const Config& config) {
  return pool.available < 0 ? 0 : pool.total / 100 * config.memory_min_available_percent;
}

/// Takes off what drift may add: a load may take some more than its formula says, and the machine
/// must have enough for that.
std::int64_t without_drift(std::int64_t bytes, const Config& config) {
  return bytes <= 0
             ? bytes
             : bytes - bytes / (100 + config.models_drift_percent) * config.models_drift_percent;
}

bool shares_a_key(const std::optional<std::vector<std::string>>& pools,
                  const std::vector<std::string>& keys) {
  if (!pools) return true;  // where it is will be known when its worker is back
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    return std::find(pools->begin(), pools->end(), key) != pools->end();
  });
}

std::string percent_of(std::int64_t hundredths) {
  return std::to_string(hundredths / 100) + "." + std::to_string(hundredths / 10 % 10) + " %";
}

}  // namespace

/// Sum over the pools with these keys, each load counted once and with no more than `most`.
/// `unsettled_alone`: without loads that were ready.
std::int64_t MemoryPools::reserved_in(const std::vector<std::string>& keys, std::int64_t most,
                                      const Leaving& leaving, bool unsettled_alone) const {
  std::int64_t sum = 0;
  const auto add = [&](std::int64_t bytes, const auto& pools, bool settled) {
    if (unsettled_alone && settled) return;
    if (shares_a_key(pools, keys)) sum += std::min(bytes, most);
  };
  for (const Load* load : loads_.all().of_pools(keys)) {
    if (leaving.count(load->row.load_id) == 0) add(load->row.bytes, load->pools, load->settled);
  }
  for (const Remains& left : remains_) add(left.row.bytes, left.pools, left.settled);
  return sum;
}

std::int64_t MemoryPools::reserved_in(const std::string& pool) const {
  const auto found = pools_.find(pool);
  const std::int64_t total = found == pools_.end() ? 0 : found->second.last.total;
  return reserved_in({pool}, total > 0 ? total : kUnknownMemory, {}, false);
}

std::int64_t MemoryPools::workers_sharing(const Worker& worker,
                                          const std::vector<std::string>& keys) const {
  std::set<PeerId> sharing;
  for (const std::string& key : keys) {
    const auto workers = workers_.find(key);
    if (workers != workers_.end()) sharing.insert(workers->second.begin(), workers->second.end());
  }
  return static_cast<std::int64_t>(sharing.size() - sharing.count(worker.peer));
}

void MemoryPools::count_worker(const Worker& worker) {
  forget_worker(worker.peer);
  for (const std::string& key : keys_[worker.peer] = pool_keys(worker)) {
    workers_[key].insert(worker.peer);
  }
}

void MemoryPools::forget_worker(PeerId peer) {
  const auto keys = keys_.find(peer);
  if (keys == keys_.end()) return;
  for (const std::string& key : keys->second) {
    const auto workers = workers_.find(key);
    if (workers == workers_.end()) continue;  // a key that was named twice
    workers->second.erase(peer);
    if (workers->second.empty()) workers_.erase(workers);
  }
  keys_.erase(keys);
}

MemoryHeadroom MemoryPools::memory_headroom(const Worker& worker, const Leaving& leaving) const {
  MemoryHeadroom headroom{kUnknownMemory, kUnknownMemory, false, 0};
  const std::vector<MemoryPool>& mine = worker.hello.memory.pools;
  const std::vector<std::string> keys = pool_keys(worker);
  const bool divided = std::any_of(mine.begin(), mine.end(), [](const auto& p) { return p.part; });
  for (const MemoryPool& reported : mine) {
    const auto found = pools_.find(reported.key);
    if (found == pools_.end()) continue;
    const MemoryPool& pool = found->second.last;
    headroom.pressed = headroom.pressed || found->second.pressed_since_us != 0;
    if (reported.part || pool.total <= 0) continue;
    const std::int64_t least = floor_of(pool, core_.config);
    const std::int64_t share = pool.total / 100 * core_.config.models_memory_percent;
    const std::int64_t may_give = std::min(share, pool.total - least);
    const std::vector<std::string>& counted =
        divided ? keys : std::vector<std::string>{reported.key};
    headroom.may_give = std::min(headroom.may_give, may_give);
    headroom.free =
        std::min(headroom.free, may_give - reserved_in(counted, pool.total, leaving, false));
    if (pool.available < 0) continue;
    std::int64_t available = pool.available - least;
    for (const std::string& id : leaving) {
      const auto load = loads_.all().find(id);
      if (load == loads_.all().end() || !load->second.settled) continue;
      if (shares_a_key(load->second.pools, counted)) available += load->second.row.bytes;
    }
    available -= reserved_in(counted, pool.total, leaving, true);
    headroom.free = std::min(headroom.free, without_drift(available, core_.config));
  }
  headroom.sharing = workers_sharing(worker, keys);
  if (headroom.pressed) headroom.free = std::min<std::int64_t>(headroom.free, 0);
  return headroom;
}

bool MemoryPools::takes_from(const Load& load, const Worker& worker) {
  return load.worker == worker.peer || (load.pools && shares_a_key(load.pools, pool_keys(worker)));
}

LoadTable::Group MemoryPools::loads_near(const Worker& worker) const {
  LoadTable::Group loads = loads_.all().of_pools(pool_keys(worker));
  const LoadTable::Group& own = loads_.all().of_worker(worker.hello.worker_key);
  loads.insert(own.begin(), own.end());
  return loads;
}

// ---- reports

void MemoryPools::hear_memory(const wire::MemoryReport& report, const std::string& host) {
  for (const MemoryPool& told : report.pools) {
    if (pools_.count(told.key) == 0) {  // groups come and go with their containers
      std::erase_if(pools_, [&](const auto& item) {
        return core_.now.mono_us - item.second.reported_us > kForgottenUs;
      });
    }
    Pool& pool = pools_[told.key];
    pool.reported_us = core_.now.mono_us;
    // Reports of several workers cross: the newest one counts.
    if (report.at_us != 0 && report.at_us < pool.at_us) continue;
    const bool waited = told.available > pool.last.available;
    pool.at_us = report.at_us;
    pool.last = told;
    pool.host = host;
    judge_pressure(pool);
    if (!waited) continue;
    const bool any =
        std::any_of(registry_.models().begin(), registry_.models().end(),
                    [&](const auto& item) { return waits_for_placement(item.second); });
    core_.want_placement = core_.want_placement || any;
  }
}

void MemoryPools::hear_worker_memory(Worker& worker, const wire::MemoryReport& report) {
  wire::MemoryReport told = report;
  if (told.pools.empty() && told.total > 0) {
    const bool machine = worker.hello.device == "cpu" || worker.hello.device.ends_with("+cpu");
    MemoryPool pool;
    pool.key = machine ? worker.hello.host : worker.hello.host + "/" + worker.hello.device;
    pool.total = told.total;
    pool.available = told.free > 0 ? told.free : -1;
    told.pools.push_back(std::move(pool));
  }
  worker.hello.memory = told;
  count_worker(worker);
  hear_memory(told, worker.hello.host);
}

void MemoryPools::hear_state_memory(Worker& worker, const wire::MemoryReport& report) {
  if (report.free <= 0 && report.pools.empty()) return;
  if (report.at_us != 0 && report.at_us < worker.hello.memory.at_us) return;  // HELLO was newer
  wire::MemoryReport now = worker.hello.memory;
  now.free = report.free;
  now.at_us = report.at_us;
  if (!report.pools.empty()) {
    now.pools = report.pools;
  } else if (now.pools.size() == 1 && now.pools[0].available >= 0) {
    now.pools[0].available = report.free;
  }
  hear_worker_memory(worker, now);
}

void MemoryPools::on(const MemoryLevel& event) {
  wire::MemoryReport report;
  report.pools = event.pools;
  report.at_us = event.at_us;
  hear_memory(report, event.host);
}

// ---- pressure

/// Finds out whether memory is short: less is available than loads have to leave, or everything
/// there waits for memory. Pressure ends with some room above that, so that it does not come and
/// go.
void MemoryPools::judge_pressure(Pool& pool) {
  const MemoryPool& now = pool.last;
  const std::int64_t least = floor_of(now, core_.config);
  const std::int64_t stall_most = core_.config.memory_max_stall_percent * 100;
  const bool is_short = now.available >= 0 && now.available < least;
  const bool stalls = stall_most > 0 && now.stall >= stall_most;
  const bool was = pool.pressed_since_us != 0;
  const bool over = (now.available < 0 || now.available >= least + now.total / 100) &&
                    (stall_most == 0 || now.stall <= stall_most / 2);
  if (!was && !is_short && !stalls) return;
  if (was && over) {
    pool.pressed_since_us = 0;
    core_.want_placement = true;
  } else if (!was) {
    pool.pressed_since_us = std::max<std::int64_t>(core_.now.mono_us, 1);
    ++core_.counters.memory_pressures;
  }
  if (was != (pool.pressed_since_us != 0)) {
    core_.out->note(was ? "memory has room again"
                        : "memory is short: nothing is loaded and idle models are unloaded",
                    {{"host", pool.host},
                     {"pool", now.key},
                     {"available_bytes", std::to_string(now.available)},
                     {"total_bytes", std::to_string(now.total)},
                     {"stalled", percent_of(now.stall)}},
                    !was);
  }
  if (pool.pressed_since_us != 0) relieve(pool);
}

/// Unloads the idle model that was used longest ago, a pinned one only where there is no other.
void MemoryPools::relieve(Pool& pool) {
  if (core_.now.mono_us < pool.evict_at_us) return;
  Load* victim = nullptr;
  const auto order = [&](const Load& load) {
    const Model& model = registry_.models().at(load.row.model);
    return std::make_pair(model.pinned, model.row.last_used_ms);
  };
  for (Load* at : loads_.all().of_pools({pool.last.key})) {
    Load& load = *at;
    if (!load.pools) continue;
    if (load.row.state == ModelState::kDraining && load.running.empty()) return;  // on its way
    if (!loads_.is_idle(load) || load.worker == 0) continue;
    if (victim == nullptr || order(load) < order(*victim)) victim = &load;
  }
  if (victim == nullptr) return;
  pool.evict_at_us = core_.now.mono_us + core_.config.memory_evict_pause_ms * 1000;
  ++core_.counters.pressure_unloads;
  Model& model = registry_.models().at(victim->row.model);
  const std::string why =
      "memory is short on " + pool.host + ": " + std::to_string(pool.last.available) + " of " +
      std::to_string(pool.last.total) + " bytes available, stalled " + percent_of(pool.last.stall);
  const LoadTable::Group& its = loads_.all().of_model(victim->row.model);
  const bool elsewhere = std::any_of(its.begin(), its.end(), [&](const Load* load) {
    return load != victim && load->row.state != ModelState::kDraining;
  });
  if (!elsewhere) {
    model.row.load_requested = false;  // a request brings it back when there is room
    registry_.put_model(model);
  }
  loads_.set_load_state(*victim, ModelState::kDraining, why);
  loads_.drain_step(*victim);
  registry_.refresh_model(model, why);
}

// ---- workers that are gone

void MemoryPools::leave_remains(const Load& load, bool in_database) {
  if (load.row.bytes <= 0 || core_.config.workers_gone_hold_ms == 0) return;
  Remains left;
  left.row = load.row;
  left.in_database = in_database;
  left.pools = load.pools;
  left.settled = load.settled;
  left.until_us = core_.now.mono_us + core_.config.workers_gone_hold_ms * 1000;
  core_.timers.add(left.until_us, TimerKind::kPlacement);
  remains_.push_back(std::move(left));
}

void MemoryPools::boot_remains(const LoadRow& row) {
  Load load;
  load.row = row;
  load.settled = row.ready_ms != 0;
  leave_remains(load, true);
  if (core_.config.workers_gone_hold_ms != 0) return;
  load.row.bytes = 0;
  loads_.put_load(load);
}

void MemoryPools::drop_remains(const std::function<bool(const Remains&)>& gone) {
  std::erase_if(remains_, [&](Remains& left) {
    if (!gone(left)) return false;
    left.row.bytes = 0;
    if (left.in_database) core_.out->write(PutLoad{left.row}, Durability::kNormal);
    return true;
  });
}

/// Bytes of a load on a worker. One that has measured nothing yet takes what its model may take.
std::int64_t MemoryPools::bytes_of(const wire::LoadedModel& held) const {
  const std::int64_t measured = held.memory.weights + held.memory.kv + held.memory.scratch;
  if (measured > 0) return measured;
  for (const auto& [name, model] : registry_.models()) {
    if (model.row.sha != held.model_sha) continue;
    const auto envelope = fit_envelope(model.row, kUnknownMemory, Pages::kAll, nullptr);
    return envelope ? envelope->bytes : 0;
  }
  return 0;
}

void MemoryPools::record_remains_of(const Worker& worker, const wire::LoadedModel& held) {
  const bool found = std::any_of(remains_.begin(), remains_.end(), [&](const Remains& left) {
    return left.row.load_id == held.load_id;
  });
  if (found || held.state == "failed") return;
  Load load;
  load.row.load_id = held.load_id;
  load.row.worker_key = worker.hello.worker_key;
  load.row.incarnation = worker.hello.incarnation;
  load.row.bytes = bytes_of(held);
  load.settled = held.state == "ready";
  load.pools = pool_keys(worker);
  leave_remains(load, false);
}

void MemoryPools::renew_remains(const std::string& load_id) {
  for (Remains& left : remains_) {
    if (left.row.load_id != load_id) continue;
    left.until_us = core_.now.mono_us + core_.config.workers_gone_hold_ms * 1000;
    core_.timers.add(left.until_us, TimerKind::kPlacement);
  }
}

void MemoryPools::process_ended(const std::string& worker_key, const std::string& incarnation) {
  drop_remains([&](const Remains& left) {
    return left.row.worker_key == worker_key && left.row.incarnation == incarnation;
  });
  std::vector<std::string> ended;
  for (const Load* load : loads_.all().of_worker(worker_key)) {
    const bool its = load->row.incarnation == incarnation;
    if (its && load->worker == 0 && load->running.empty()) ended.push_back(load->row.load_id);
  }
  for (const std::string& id : ended) {
    Load& load = loads_.all().at(id);
    const ModelState state = load.row.state;
    if (state == ModelState::kReady || state == ModelState::kDraining) {
      loads_.end_load(id, ModelState::kUnloaded, "its worker's process has ended");
      continue;
    }
    // A load in progress waited for the worker's return: it is a try like any other.
    const std::string why = "worker lost while loading: its process has ended";
    const auto model = registry_.models().find(load.row.model);
    loads_.load_lost(load, why);
    if (model != registry_.models().end())
      registry_.count_load_failure(model->second, worker_key, why, true);
  }
  core_.want_placement = true;
}

void MemoryPools::forget_remains(const std::string& worker_key,
                                 const std::string& but_incarnation) {
  drop_remains([&](const Remains& left) {
    return left.row.worker_key == worker_key && left.row.incarnation != but_incarnation;
  });
}

void MemoryPools::drop_due_remains() {
  drop_remains([&](const Remains& left) { return left.until_us <= core_.now.mono_us; });
}

Remains* MemoryPools::find_remains(const std::string& load_id) {
  const auto left = std::find_if(remains_.begin(), remains_.end(),
                                 [&](const Remains& r) { return r.row.load_id == load_id; });
  return left == remains_.end() ? nullptr : &*left;
}

}  // namespace holdfast::core
