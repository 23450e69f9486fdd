#include "control/operator/status_document.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "control/operator/documents.h"
#include "control/operator/problems.h"
#include "shared/base/version.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

json counters_json(const core::Counters& c) {
  return {{"accepted", c.accepted},
          {"duplicates", c.duplicates},
          {"refused", c.refused},
          {"succeeded", c.succeeded},
          {"failed", c.failed},
          {"cancelled", c.cancelled},
          {"expired", c.expired},
          {"tokens", c.tokens},
          {"duplicate_tokens", c.duplicate_tokens},
          {"stale_events", c.stale_events},
          {"determinism_violations", c.violations},
          {"dispatched", c.dispatched},
          {"resumed", c.resumed},
          {"adopted", c.adopted},
          {"returned", c.returned},
          {"requeued", c.requeued},
          {"gave_way", c.preempted},
          {"workers_lost", c.workers_lost},
          {"suspicions", c.suspicions},
          {"false_suspicions", c.false_suspicions},
          {"second_attempts", c.second_attempts},
          {"retired", c.retired},
          {"breakers_opened", c.breakers_opened},
          {"idle_unloads", c.idle_unloads},
          {"envelope_drifts", c.envelope_drifts},
          {"memory_pressures", c.memory_pressures},
          {"pressure_unloads", c.pressure_unloads}};
}

json times_json(const Histogram& h) {
  const auto ms = [](std::int64_t us) { return static_cast<double>(us) / 1000; };
  return {{"count", h.count()},
          {"p50_ms", ms(h.quantile(0.5))},
          {"p95_ms", ms(h.quantile(0.95))},
          {"p99_ms", ms(h.quantile(0.99))},
          {"max_ms", ms(h.max())}};
}

json latency_json(const core::Stats& stats, const ProcessFacts& facts) {
  const core::ModelStats all = stats.all();
  return {{"queue_wait", times_json(all.queue_wait)},
          {"first_token", times_json(all.first_token)},
          {"token_gap", times_json(all.token_gap)},
          {"end_to_end", times_json(all.end_to_end)},
          {"model_switch", times_json(stats.model_switch)},
          {"commit", times_json(facts.commit_us)}};
}

json rates_json(const core::Stats& stats, const ProcessFacts& facts) {
  const auto rate = [&](const core::MinuteRate& events) {
    return events.per_second(facts.now_us, facts.started_us);
  };
  return {{"accepted_per_s", rate(stats.accepted)},
          {"ended_per_s", rate(stats.ended)},
          {"tokens_per_s", rate(stats.tokens)}};
}

/// Refusals that occurred, by their typed code.
json refusals_json(const core::Stats& stats) {
  json refusals = json::object();
  for (std::size_t code = 0; code < stats.refused.size(); ++code) {
    if (stats.refused[code] == 0) continue;
    refusals[std::string(errc_name(static_cast<Errc>(code)))] = stats.refused[code];
  }
  return refusals;
}

json queue_lines_json(const core::Machine& machine, std::int64_t now_us) {
  constexpr const char* kClasses[] = {"interactive", "normal", "batch"};
  json lines = json::array();
  for (const core::QueueLine& line : machine.lifecycle().queue_lines(now_us)) {
    lines.push_back({{"model", line.model},
                     {"tenant", line.tenant},
                     {"priority", kClasses[static_cast<std::size_t>(line.priority)]},
                     {"waiting", line.waiting},
                     {"running", line.running},
                     {"oldest_wait_ms", line.oldest_wait_us / 1000}});
  }
  return lines;
}

}  // namespace

namespace {

/// Workers that use the same memories.
struct DeviceGroup {
  std::string host;
  std::set<std::string> devices;
  std::int64_t workers = 0, total = 0, free = 0, reserved = 0, used = 0;
  std::int64_t reservable = 0, left = 0;
  std::int64_t stall = 0;
  bool pressed = false;
};

/// Sum of what its own loads reserve, for a worker that names no memory.
std::int64_t reserved_by(const core::Machine& machine, const core::Worker& worker) {
  std::int64_t reserved = 0;
  for (const std::string& id : worker.loads) {
    const auto load = machine.loads().all().find(id);
    if (load != machine.loads().all().end()) reserved += load->second.row.bytes;
  }
  return reserved;
}

void add_pools(DeviceGroup& group, const core::Machine& machine, const core::Worker& worker) {
  std::int64_t tightest = core::kUnknownMemory;
  for (const MemoryPool& reported : worker.hello.memory.pools) {
    const auto pool = machine.memory().pools().find(reported.key);
    if (pool == machine.memory().pools().end()) continue;
    group.stall = std::max<std::int64_t>(group.stall, pool->second.last.stall);
    group.pressed = group.pressed || pool->second.pressed_since_us != 0;
    if (reported.part || reported.total >= tightest) continue;
    tightest = reported.total;  // the memory that reservable_bytes counts
    group.reserved = machine.memory().reserved_in(reported.key);
  }
}

void add_memory(DeviceGroup& group, const core::Machine& machine, const core::Worker& worker) {
  const wire::Hello& h = worker.hello;
  group.host = h.host;
  group.devices.insert(h.device);
  group.free = group.workers == 0 ? h.memory.free : std::min(group.free, h.memory.free);
  group.total = std::max(group.total, h.memory.total);
  group.used += h.memory.rss;
  ++group.workers;
  if (h.memory.pools.empty()) group.reserved += reserved_by(machine, worker);
  add_pools(group, machine, worker);
  const core::MemoryHeadroom headroom = machine.memory().memory_headroom(worker);
  const bool measured = headroom.may_give < core::kUnknownMemory;
  group.reservable = measured ? headroom.may_give : 0;
  group.left = measured ? std::max<std::int64_t>(headroom.free, 0) : 0;
}

}  // namespace

/// Groups workers that use the same memories, whatever they call their devices.
json host_devices_json(const core::Machine& machine) {
  std::map<std::string, DeviceGroup> groups;
  for (const auto& [peer, worker] : machine.fleet().workers()) {
    std::string key;
    for (const MemoryPool& pool : worker.hello.memory.pools) key += pool.key + "\n";
    if (key.empty()) key = worker.hello.host + "\n" + worker.hello.device;
    add_memory(groups[key], machine, worker);
  }
  json list = json::array();
  for (const auto& [key, group] : groups) {
    std::string names;
    for (const std::string& name : group.devices) names += (names.empty() ? "" : ", ") + name;
    list.push_back({{"host", group.host},
                    {"device", names},
                    {"workers", group.workers},
                    {"total_bytes", group.total},
                    {"free_bytes", group.free},
                    {"used_bytes", group.used},
                    {"reservable_bytes", group.reservable},
                    {"reserved_bytes", group.reserved},
                    {"unreserved_bytes", group.left},
                    {"stalled_percent", static_cast<double>(group.stall) / 100},
                    {"short", group.pressed}});
  }
  return list;
}

namespace {

/// Adds the bounds of one tenant, model or worker that are set, each with its use.
void add_subject_limits(json& limits, const char* prefix, const std::string& name,
                        const core::SubjectConfig& subject, const core::UsageCounters& now) {
  const std::tuple<const char*, std::int64_t, std::int64_t> bounds[] = {
      {"max_requests", subject.max_requests, now.requests},
      {"max_waiting", subject.max_waiting, now.waiting},
      {"max_running", subject.max_running, now.running},
      {"max_pages", subject.max_pages, now.pages},
      {"max_bytes", subject.max_bytes, now.bytes}};
  for (const auto& [knob, limit, used] : bounds) {
    if (limit <= 0) continue;
    limits.push_back({{"name", std::string(prefix) + "." + name + "." + knob},
                      {"limit", limit},
                      {"used", used}});
  }
}

}  // namespace

/// The knobs that bound something now, each with its use; limit 0: no bound.
json limits_json(const core::Machine& machine, const store::Store& store) {
  const core::Config& c = machine.config();
  const core::UsageTracker& usage = machine.lifecycle().requests().usage();
  std::int64_t loading = 0;
  for (const auto& [id, load] : machine.loads().all()) {
    const core::ModelState state = load.row.state;
    loading += state != core::ModelState::kReady && state != core::ModelState::kDraining;
  }
  std::int64_t tenant_most = 0;
  for (const core::QueueLine& line : machine.lifecycle().queue_lines(0)) {
    tenant_most = std::max(tenant_most, usage.tenant(line.tenant).requests);
  }
  json limits = json::array();
  const auto add = [&](const char* name, std::int64_t limit, std::int64_t used) {
    limits.push_back({{"name", name}, {"limit", limit}, {"used", used}});
  };
  add("queue.max_requests", c.queue_max_requests,
      usage.all().requests + machine.lifecycle().unread());
  add("queue.max_tenant_requests", c.queue_max_tenant_requests, tenant_most);
  add("queue.max_waiting", c.queue_max_waiting, usage.all().waiting + machine.lifecycle().unread());
  add("queue.max_running", c.queue_max_running, usage.all().running);
  add("queue.max_pages", c.queue_max_pages, usage.all().pages);
  add("queue.max_bytes", c.queue_max_bytes, usage.all().bytes);
  add("queue.max_preparing", c.queue_max_preparing, machine.jobs().size());
  add("models.loads_at_once", c.models_loads_at_once, loading);
  add("storage.min_free_bytes", c.storage_min_free_bytes, store.disk_free());
  for (const auto& [name, subject] : c.tenants) {
    add_subject_limits(limits, "tenant", name, subject, usage.tenant(name));
  }
  for (const auto& [name, subject] : c.models) {
    add_subject_limits(limits, "model", name, subject, usage.model(name));
  }
  for (const auto& [name, subject] : c.workers) {
    add_subject_limits(limits, "worker", name, subject, usage.worker(name));
  }
  return limits;
}

namespace {

json problems_json(const core::Machine& machine, const store::Store& store,
                   const ProcessFacts& facts) {
  json list = json::array();
  for (const Problem& problem : find_problems(machine, store, facts)) {
    list.push_back({{"level", problem.error ? "error" : "warning"},
                    {"subject", problem.subject},
                    {"what", problem.what},
                    {"hint", problem.hint}});
  }
  return list;
}

/// Workers with their restarts, which the supervisor knows.
json supervised_workers(const core::Machine& machine, const ProcessFacts& facts) {
  json workers = workers_json(machine);
  for (json& worker : workers) {
    for (const SupervisedChild& child : facts.children) {
      if (child.pid == worker.value("pid", std::int64_t{0})) worker["restarts"] = child.restarts;
    }
  }
  return workers;
}

json daemon_json(const core::Machine& machine, const ProcessFacts& facts) {
  return {{"pid", facts.pid},
          {"version", kVersion},
          {"epoch", machine.core().fences.epoch()},
          {"uptime_ms", (facts.now_us - facts.started_us) / 1000},
          {"config_version", machine.config_history().config_version().version},
          {"draining", machine.core().draining},
          {"storage_low", machine.core().storage_low},
          {"ingress_helpers", machine.jobs().helpers()},
          {"streams", machine.streams().size()},
          {"quarantined_requests", machine.lifecycle().quarantined()},
          {"malformed_messages", facts.malformed}};
}

}  // namespace

json status_document(const core::Machine& machine, const store::Store& store,
                     const ProcessFacts& facts) {
  json queue = queue_json(machine);
  queue["lines"] = queue_lines_json(machine, facts.now_us);
  json supervised = json::array();
  for (const SupervisedChild& child : facts.children) {
    supervised.push_back({{"role", child.role},
                          {"name", child.name},
                          {"pid", child.pid > 0 ? json(child.pid) : json()},
                          {"restarts", child.restarts}});
  }
  json pair;
  if (facts.pair) {
    pair = {
        {"state", facts.pair->state}, {"standby", facts.pair->standby}, {"term", facts.pair->term}};
  }
  return {{"pid", facts.pid},
          {"daemon", daemon_json(machine, facts)},
          {"problems", problems_json(machine, store, facts)},
          {"queue", std::move(queue)},
          {"counters", counters_json(machine.core().counters)},
          {"rates", rates_json(machine.core().stats, facts)},
          {"latency", latency_json(machine.core().stats, facts)},
          {"refusals", refusals_json(machine.core().stats)},
          {"limits", limits_json(machine, store)},
          {"devices", host_devices_json(machine)},
          {"workers", supervised_workers(machine, facts)},
          {"models", models_json(machine)},
          {"supervised", std::move(supervised)},
          {"pair", std::move(pair)},
          {"storage",
           {{"commits", facts.commits},
            {"synced_commits", facts.full_commits},
            {"longest_commit_us", facts.commit_us.max()},
            {"wal_pages", store.wal_pages()},
            {"disk_free_bytes", store.disk_free()}}}};
}

}  // namespace holdfast::daemon
