// Model placement: which worker loads a model, with what, and why not the others.
#include "control/core/placement.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "control/core/aliases.h"
#include "control/core/breakers.h"
#include "control/core/fleet.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/memory_pools.h"
#include "control/core/nodes.h"
#include "control/core/registry.h"
#include "shared/base/roots.h"

namespace holdfast::core {
namespace {

// Below this many bytes of weights per thread, one more thread costs its barriers and gains
// nothing.
constexpr std::int64_t kThreadBytes = 4 << 20;

constexpr std::int64_t kSurveyPauseUs = 1'000'000;

std::int32_t threads_for(const ModelRow& row, const Worker& worker) {
  const std::int64_t useful = std::max<std::int64_t>(row.weights_bytes / kThreadBytes, 1);
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(useful, std::max(worker.hello.threads, 1)));
}

std::string bytes_text(std::int64_t bytes) {
  return bytes >= kUnknownMemory ? "unknown" : std::to_string(bytes);
}

/// Order in which workers are tried: those for bound requests alone last, where it fits as it is or
/// when its file has come, accelerators, the planner's cost, few loads, much room, the lower key.
auto rank_of(const DeviceVerdict& v) {
  return std::make_tuple(v.bound_only, v.verdict != Verdict::kFits && !v.fetches,
                         v.device.starts_with("cpu"), v.cost.total_s, v.loads, -v.free,
                         v.worker_key);
}

bool goes_first(const DeviceVerdict& a, const DeviceVerdict& b) {
  return rank_of(a) < rank_of(b);
}

/// Says what a load needs of a worker's memory and what is free.
std::string memory_text(const DeviceVerdict& v, const MemoryHeadroom& headroom) {
  const bool fits = v.verdict == Verdict::kFits;
  const char* begin = fits                 ? "needs "
                      : v.fits_after_drain ? "room is being made: needs "
                                           : "waits for room: needs ";
  std::string text = begin + std::to_string(v.needed) + " bytes, free " + bytes_text(v.free);
  if (headroom.pressed) text += ", memory is short";
  if (fits || headroom.sharing == 0) return text;
  const bool several = headroom.sharing > 1;
  return text + " in memory that " + std::to_string(headroom.sharing) + " more worker" +
         (several ? "s take" : " takes") + " from";
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kLoaded:
      return "loaded";
    case Verdict::kFits:
      return "fits";
    case Verdict::kNoFreeMemory:
      return "no room now";
    case Verdict::kTooLarge:
      return "too large";
    case Verdict::kClosed:
      return "gets no work";
  }
  return "?";
}

void Placement::run_placement() {
  core_.want_placement = false;
  if (core_.draining) return;
  bound_only_ = std::any_of(fleet_.workers().begin(), fleet_.workers().end(),
                            [](const auto& item) { return !item.second.hello.only_class.empty(); });
  for (auto& [name, model] : registry_.models()) registry_.want_if_waited_for(model);
  // Models that nobody serves go first: loads that may run at once are few.
  for (const bool served : {false, true}) {
    for (auto& [name, model] : registry_.models()) {
      const bool requested = model.row.load_requested && model.row.state != ModelState::kFailed;
      if (requested && (model.row.state == ModelState::kReady) == served) reconcile_replicas(model);
    }
  }
}

Placement::Standing Placement::standing_of(const Model& model, const Worker& worker) const {
  Standing standing;
  const auto serves = [](const Load& load) {
    return load.row.state != ModelState::kDraining && load.only_class.empty();
  };
  const LoadTable::Group& its = loads_.all().of_model(model.row.name);
  standing.elsewhere =
      std::any_of(its.begin(), its.end(), [&](const Load* load) { return serves(*load); });
  for (const Load* load : memory_.loads_near(worker)) {
    const bool same = load->row.model == model.row.name;
    standing.holds = standing.holds || (same && load->row.worker_key == worker.hello.worker_key);
    standing.shares_memory =
        standing.shares_memory || (same && serves(*load) && MemoryPools::takes_from(*load, worker));
    if (load->row.state == ModelState::kDraining) standing.leaving.insert(load->row.load_id);
  }
  return standing;
}

/// True for a worker that would take a load if its node had the file.
bool Placement::needs_file(const Model& model, const Worker& worker) const {
  const std::string& key = worker.hello.worker_key;
  return worker.takes_work() && worker.hello.engine != "fake" &&
         nodes_.lacks_file(key, model.row.sha);
}

/// Why a worker takes no load at all, as things are; empty: it may.
std::string Placement::closed_for(const Model& model, const Worker& worker,
                                  const Standing& standing) const {
  if (!worker.takes_work()) return std::string(worker_state_name(worker));
  const std::string& key = worker.hello.worker_key;
  if (breakers_.of_worker(key).open(core_.now.mono_us)) return "breaker open";
  if (worker.hello.engine != "fake") {
    if (std::string lacks = nodes_.lacks(key, model.row.sha); !lacks.empty()) return lacks;
  }
  const auto failed = model.failed_on.find(key);
  if (!standing.elsewhere || failed == model.failed_on.end() ||
      failed->second < core_.config.models_load_tries) {
    return {};
  }
  return std::to_string(failed->second) + " loads in a row failed here";
}

/// Returns how many replicas of the model are in each failure domain.
Placement::Domains Placement::domains_of(const Model& model) const {
  Domains domains;
  for (const Load* load : loads_.all().of_model(model.row.name)) {
    const bool stays = load->row.state != ModelState::kDraining && load->only_class.empty();
    if (stays) ++domains[nodes_.domain_of(load->row.worker_key)];
  }
  return domains;
}

/// Sets what it costs that this worker gets the model, and says so where its node is measured.
void Placement::plan(const Model& model, const Domains& domains, DeviceVerdict& v) const {
  v.candidate.facts = nodes_.facts_of(v.worker_key);
  v.candidate.loads = v.loads;
  v.candidate.bytes_missing = v.lacks_file ? model.row.size : 0;
  const auto near = domains.find(nodes_.domain_of(v.worker_key));
  v.candidate.replicas_near = near == domains.end() ? 0 : near->second;
  v.cost = plan_cost(v.candidate, model.row.weights_bytes);
  if (v.verdict != Verdict::kFits && !v.fetches) return;
  if (v.candidate.facts.memory_bytes_s > 0) v.why += "; " + plan_text(v.candidate, v.cost);
}

DeviceVerdict Placement::verdict_on(const Model& model, const Worker& worker,
                                    const Domains& domains) const {
  DeviceVerdict v;
  v.worker_key = worker.hello.worker_key;
  v.device = worker.hello.device;
  v.peer = worker.peer;
  v.loads = static_cast<std::int64_t>(worker.loads.size());
  v.bound_only = !worker.hello.only_class.empty();
  const MemoryHeadroom headroom = memory_.memory_headroom(worker, {});
  v.free = headroom.free;
  v.may_give = headroom.may_give;
  v.largest_context = largest_context(model.row, v.may_give);
  const Standing standing = standing_of(model, worker);
  std::int64_t least = 0;
  (void)fit_envelope(model.row, v.free, Pages::kAtLeastAContext, &least);
  // Another load of a model in the same pool comes whole or not at all: cut to what is left it
  // would take everybody's room and add little.
  const bool whole = standing.shares_memory && !v.bound_only;
  v.pages = whole ? Pages::kAll : Pages::kAtLeastAContext;
  const bool fits = fit_envelope(model.row, v.free, v.pages, &v.needed).has_value();
  if (standing.holds) {
    v.verdict = Verdict::kLoaded;
  } else if (least > v.may_give) {
    v.verdict = Verdict::kTooLarge;
    v.why = "needs " + std::to_string(least) + " bytes, may give " + bytes_text(v.may_give) +
            ", largest context " + std::to_string(v.largest_context);
  } else if (std::string why = closed_for(model, worker, standing); !why.empty()) {
    v.verdict = Verdict::kClosed;
    v.why = std::move(why);
    v.lacks_file = needs_file(model, worker);
    v.fetches = fits && v.lacks_file && nodes_.may_fetch(v.worker_key, model.row.sha);
  } else {
    v.verdict = fits ? Verdict::kFits : Verdict::kNoFreeMemory;
    v.fits_after_drain = !fits && !headroom.pressed && !standing.leaving.empty() &&
                         v.needed <= memory_.memory_headroom(worker, standing.leaving).free;
    v.why = memory_text(v, headroom);
  }
  plan(model, domains, v);
  return v;
}

/// False for a worker that is for bound requests alone, and none of this model is bound to it.
bool Placement::is_for(const Worker& worker, const Model& model) const {
  const std::string& only = worker.hello.only_class;
  return only.empty() || lifecycle_.requests().usage().bound_to(model.row.name, only) > 0;
}

std::vector<DeviceVerdict> Placement::survey(const Model& model) const {
  std::vector<DeviceVerdict> all;
  const Domains domains = domains_of(model);
  for (const auto& [peer, worker] : fleet_.workers()) {
    if (is_for(worker, model)) all.push_back(verdict_on(model, worker, domains));
  }
  std::sort(all.begin(), all.end(), goes_first);
  return all;
}

std::int64_t Placement::loads_that_stay(const std::string& model) const {
  const LoadTable::Group& its = loads_.all().of_model(model);
  return std::count_if(its.begin(), its.end(), [](const Load* load) {
    return load->row.state != ModelState::kDraining && load->only_class.empty();
  });
}

/// False if the model's file lies outside of the roots: what is loaded of it stays, no other worker
/// loads it, and one that is loaded nowhere is given up.
bool Placement::may_be_read(Model& model, std::int64_t loads) {
  const auto allowed = allowed_by_roots(model.row.path, core_.config.model_roots);
  if (allowed) return true;
  if (loads == 0) registry_.give_up(model, allowed.error().what);
  return false;
}

/// True if the model has its replicas, and this worker would be one more.
static bool has_enough(std::int64_t replicas, std::int64_t have, const DeviceVerdict& v) {
  return replicas > 0 && have >= replicas && !v.bound_only;
}

/// Returns true if workers are allowed to load one more at the same time.
bool Placement::has_permit() const {
  return loads_.all().in_progress() < core_.config.models_loads_at_once;
}

/// Returns true if no worker has to be looked at for this model: it has its replicas, or no load
/// can begin now. Looking is dear where there are many workers; in the second case it is done once
/// a second, for what fetches its file or fits nowhere.
bool Placement::needs_nothing(Model& model, std::int64_t replicas, std::int64_t have) {
  if (bound_only_) return false;
  if (replicas > 0 && have >= replicas) return true;
  if (has_permit()) return false;
  if (model.survey_at_us > core_.now.mono_us) return true;
  model.survey_at_us = core_.now.mono_us + kSurveyPauseUs;
  core_.timers.add(model.survey_at_us, TimerKind::kPlacement);
  return false;
}

/// Puts the workers from this one on in order again: the failure domain of the one before has so
/// many replicas now.
void Placement::replan(Model& model, std::size_t from, std::int64_t replicas_near) {
  std::vector<DeviceVerdict>& devices = model.devices;
  const std::string domain = nodes_.domain_of(devices[from - 1].worker_key);
  const auto rest = devices.begin() + static_cast<std::ptrdiff_t>(from);
  for (auto v = rest; v != devices.end(); ++v) {
    if (nodes_.domain_of(v->worker_key) != domain) continue;
    v->candidate.replicas_near = replicas_near;
    v->cost = plan_cost(v->candidate, model.row.weights_bytes);
  }
  std::sort(rest, devices.end(), goes_first);
}

/// Gives the model to this worker, now or when its node has the file, or makes room for it there.
Placement::Attempt Placement::try_worker(Model& model, DeviceVerdict& v, bool& skip_eviction) {
  if (v.fetches) return Attempt::kGiven;
  Worker& worker = fleet_.workers().at(v.peer);
  if (v.verdict == Verdict::kFits) {
    if (!has_permit()) return Attempt::kNoPermit;
    start_load(model, worker, v);
    v.verdict = Verdict::kLoaded;
    skip_eviction = true;
    return Attempt::kGiven;
  }
  // Placed when the models that make room have gone.
  const bool may_evict = v.verdict == Verdict::kNoFreeMemory && !skip_eviction && has_permit();
  if (may_evict) skip_eviction = evict_for(worker, model, v.needed);
  return Attempt::kNone;
}

void Placement::reconcile_replicas(Model& model) {
  if (model.retry_at_us > core_.now.mono_us) return;
  const std::int64_t replicas = core_.config.model(model.row.name).replicas;
  std::int64_t have = loads_that_stay(model.row.name);
  if (needs_nothing(model, replicas, have)) return;
  std::vector<DeviceVerdict>& devices = model.devices = survey(model);
  if (!may_be_read(model, have)) return;
  if (have == 0 && fits_nowhere(model)) return;
  // A model that serves already moves no other one.
  bool skip_eviction = have > 0 || std::any_of(devices.begin(), devices.end(),
                                               [](const auto& v) { return v.fits_after_drain; });
  Domains domains = domains_of(model);
  bool given = false;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    DeviceVerdict& v = devices[i];
    if (has_enough(replicas, have, v)) continue;
    // The loads that were decided just before have changed what is free.
    if (given && v.verdict != Verdict::kLoaded) {
      v = verdict_on(model, fleet_.workers().at(v.peer), domains);
    }
    const Attempt attempt = try_worker(model, v, skip_eviction);
    if (attempt == Attempt::kNoPermit) break;  // again when a load ends
    if (attempt == Attempt::kNone) continue;
    given = true;
    have += v.bound_only ? 0 : 1;
    if (replicas > 0) replan(model, i + 1, ++domains[nodes_.domain_of(v.worker_key)]);
  }
}

/// Returns true if no connected device can ever hold the model: another one is waited for, then it
/// fails.
bool Placement::fits_nowhere(Model& model) {
  const auto& devices = model.devices;
  // Workers for bound requests alone come last, and are no place for new ones.
  const bool too_large = !devices.empty() && !devices.front().bound_only &&
                         std::all_of(devices.begin(), devices.end(), [](const auto& v) {
                           return v.bound_only || v.verdict == Verdict::kTooLarge;
                         });
  if (!too_large) {
    model.unfit_since_us = 0;
    return false;
  }
  if (model.unfit_since_us == 0) {
    model.unfit_since_us = core_.now.mono_us;
    core_.timers.add(core_.now.mono_us + core_.config.models_fleet_wait_ms * 1000,
                     TimerKind::kPlacement);
  }
  if (core_.now.mono_us - model.unfit_since_us < core_.config.models_fleet_wait_ms * 1000)
    return true;
  std::string why = "placement_unsupported: no connected device can hold it:";
  for (const DeviceVerdict& v : devices) {
    why += " " + v.worker_key + " (" + v.device + ") " + v.why + ";";
  }
  why.pop_back();
  model.unfit_since_us = 0;
  registry_.give_up(model, why);
  return true;
}

void Placement::start_load(Model& model, Worker& worker, const DeviceVerdict& verdict) {
  const auto envelope = fit_envelope(model.row, verdict.free, verdict.pages, nullptr);
  CHECK_MSG(envelope.has_value(), "placed where it fits");
  Load load;
  load.row.load_id =
      "l" + std::to_string(core_.fences.epoch()) + "-" + std::to_string(++last_load_);
  load.row.model = model.row.name;
  load.row.model_sha = model.row.sha;
  load.row.worker_key = worker.hello.worker_key;
  load.row.incarnation = worker.hello.incarnation;
  load.row.state = ModelState::kPlacing;
  load.row.slots = model.row.slots;
  load.row.pages = static_cast<std::int32_t>(envelope->pages);
  load.row.context = model.row.context;
  load.row.bytes = envelope->bytes;
  load.row.created_ms = core_.now.wall_ms;
  load.worker = worker.peer;
  load.only_class = worker.hello.only_class;
  load.pools = pool_keys(worker);
  load.deadline_us = core_.now.mono_us + core_.config.models_load_timeout_ms * 1000;
  core_.timers.add_keyed(load.deadline_us, TimerKind::kLoad, load.row.load_id);
  wire::Load message;
  message.load_id = load.row.load_id;
  message.model_sha = model.row.sha;
  message.path = model.row.path;
  message.size = model.row.size;
  message.mtime_ns = model.row.mtime_ns;
  message.identity = model.identity;
  message.bytes = envelope->bytes;
  message.context = model.row.context;
  message.slots = model.row.slots;
  message.pages = load.row.pages;
  message.kv_type = model.row.kv_type;
  message.prefill_chunk = static_cast<std::int32_t>(model.row.prefill_chunk);
  message.options = model.row.options;
  message.threads = threads_for(model.row, worker);
  load.row.reason = load.why = verdict.why + ", reserved " + std::to_string(envelope->bytes) +
                               "; " + std::to_string(message.threads) + " of " +
                               std::to_string(std::max(worker.hello.threads, 1)) + " threads for " +
                               std::to_string(model.row.weights_bytes) + " bytes of weights";
  core_.out->write(InsertTransition{"load", load.row.load_id, "", "placing", core_.now.wall_ms,
                                    worker.hello.memory.free, worker.hello.memory.free, load.why},
                   Durability::kFull);
  worker.loads.insert(load.row.load_id);
  loads_.put_load(load);
  loads_.all().insert(std::move(load));
  core_.out->send(worker.peer, std::move(message));
  registry_.refresh_model(model, "placed on worker " + worker.hello.worker_key);
}

/// Returns true if the load is idle, not pinned and not loaded a moment ago: nothing is loaded only
/// to make room for the next one.
bool Placement::may_be_evicted(Load& load) {
  if (!loads_.is_idle(load) || registry_.models().at(load.row.model).pinned) return false;
  const std::int64_t stays_until_us =
      load.ready_us + core_.config.model(load.row.model).dwell_ms * 1000;
  if (stays_until_us <= core_.now.mono_us) return true;
  if (load.dwell_timer_us != stays_until_us) {  // placement looks often, one timer is enough
    load.dwell_timer_us = stays_until_us;
    core_.timers.add(stays_until_us, TimerKind::kPlacement);
  }
  return false;
}

/// Unloads the least recently used idle models that take from this worker's pools, on whichever
/// worker they are, until `bytes_needed` would be free.
bool Placement::evict_for(const Worker& worker, Model& wanting, std::int64_t bytes_needed) {
  std::vector<std::pair<std::int64_t, std::string>> idle;
  Leaving leaving;
  for (Load* near : memory_.loads_near(worker)) {
    Load& load = *near;
    const std::string& id = load.row.load_id;
    if (load.row.model == wanting.row.name || load.worker == 0) continue;
    if (load.row.state == ModelState::kDraining) leaving.insert(id);
    if (!MemoryPools::takes_from(load, worker) ||
        !aliases_.makes_way_for(load.row.model, wanting.row.name))
      continue;
    if (!may_be_evicted(load)) continue;
    idle.emplace_back(registry_.models().at(load.row.model).row.last_used_ms, id);
  }
  std::sort(idle.begin(), idle.end());
  std::vector<std::string> victims;
  for (const auto& [used, id] : idle) {
    if (memory_.memory_headroom(worker, leaving).free >= bytes_needed) break;
    leaving.insert(id);
    victims.push_back(id);
  }
  if (memory_.memory_headroom(worker, leaving).free < bytes_needed) return false;
  for (const std::string& id : victims) {
    Load& load = loads_.all().at(id);
    Model& model = registry_.models().at(load.row.model);
    model.row.load_requested =
        false;  // it comes back when a request asks for it, or if this was in vain
    wanting.displaced.push_back(model.row.name);
    loads_.set_load_state(load, ModelState::kDraining, "makes room for " + wanting.row.name);
    loads_.drain_step(load);
    registry_.refresh_model(model, "makes room for " + wanting.row.name);
  }
  return true;
}

}  // namespace holdfast::core
