#include "control/operator/metrics_document.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/operator/documents.h"
#include "control/operator/metric_registry.h"
#include "control/operator/problems.h"
#include "shared/base/version.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

constexpr std::size_t kModelNamesMax = 64;
constexpr std::size_t kTenantNamesMax = 32;
constexpr std::size_t kWorkerNamesMax = 64;
constexpr std::int64_t kWalFrameBytes = 4096 + 24;  // a page and its header

constexpr Bounds kWaits{10, 29};     // 1 ms … 537 s
constexpr Bounds kGaps{9, 25};       // 0.5 ms … 34 s
constexpr Bounds kCommits{6, 23};    // 64 us … 8.4 s
constexpr Bounds kSwitches{14, 30};  // 16 ms … 1074 s

double number(std::uint64_t count) {
  return static_cast<double>(count);
}
double number(std::int64_t count) {
  return static_cast<double>(count);
}
double number(const json& count) {
  return count.get<double>();
}

struct Writer {
  const core::Machine& machine;
  const store::Store& store;
  const ProcessFacts& facts;
  MetricRegistry registry;
  Names models{kModelNamesMax}, tenants{kTenantNamesMax}, workers{kWorkerNamesMax};

  Writer(const core::Machine& m, const store::Store& s, const ProcessFacts& f)
      : machine(m), store(s), facts(f) {
    for (const auto& [name, stats] : machine.core().stats.models) models.add(name);
    for (const auto& [name, model] : machine.registry().models()) models.add(name);
    for (const auto& [name, subject] : machine.config().tenants) tenants.add(name);
    // A child keeps its name while it is dead, or its counts would begin anew.
    for (const SupervisedChild& child : facts.children) {
      if (child.role == "worker") workers.add(child.name);
    }
    for (const auto& [peer, worker] : machine.fleet().workers())
      workers.add(worker.hello.worker_key);
  }

  void times();
  void ends();
  void refusals();
  void continuity();
  void queue();
  void daemon();
  void storage();
  void model_states();
  void loads();
  void worker_states();
  void nodes();
  void pair();
  void prefix_groups();
  void devices();
  void limits();
};

constexpr const char* kClasses[] = {"interactive", "normal", "batch"};

void Writer::times() {
  using core::ModelStats;
  const auto write = [&](std::string_view name, std::string_view help,
                         Histogram ModelStats::*member, Bounds bounds) {
    Family& family = registry.histogram(name, help, {"model_name"});
    for (const auto& [model, stats] : machine.core().stats.models) {
      family.row({model}, stats.*member, bounds);
    }
  };
  write("holdfast_time_to_first_token_seconds",
        "From the arrival of a submission to the first token of each choice.",
        &ModelStats::first_token, kWaits);
  write("holdfast_inter_token_latency_seconds",
        "Between two tokens of a choice, pauses of a failover included.", &ModelStats::token_gap,
        kGaps);
  write("holdfast_e2e_request_latency_seconds",
        "From the arrival of a submission to its end, of requests that succeeded.",
        &ModelStats::end_to_end, kWaits);
  write("holdfast_request_queue_time_seconds",
        "From the acceptance of a request to its first dispatch.", &ModelStats::queue_wait, kWaits);
  write("holdfast_request_prefill_time_seconds", "From a dispatch to the first token of a choice.",
        &ModelStats::prefill, kWaits);
  write("holdfast_request_decode_time_seconds",
        "From the first to the last token of a choice that succeeded.", &ModelStats::decode,
        kWaits);
  registry
      .histogram("holdfast_commit_latency_seconds", "Of one group of row changes, with its sync.")
      .row({}, facts.commit_us, kCommits);
  registry
      .histogram("holdfast_model_switch_seconds",
                 "From the wish for a model, or the loss of its last worker, until it is ready.")
      .row({}, machine.core().stats.model_switch, kSwitches);
}

void Writer::ends() {
  using core::ModelStats;
  registry.counter("holdfast_requests_accepted_total", "Requests that were accepted.")
      .row(number(machine.core().counters.accepted));
  Family& prompt = registry.counter("holdfast_prompt_tokens_total",
                                    "Prompt tokens of accepted requests.", {"model_name"});
  Family& generated = registry.counter("holdfast_generation_tokens_total",
                                       "Tokens that were committed.", {"model_name"});
  Family& success = registry.counter("holdfast_request_success_total",
                                     "Choices that succeeded, by what ended them.",
                                     {"model_name", "finished_reason"});
  Family& ended = registry.counter("holdfast_requests_ended_total", "Requests that ended, and how.",
                                   {"model_name", "state"});
  for (const auto& [model, stats] : machine.core().stats.models) {
    prompt.row({model}, number(stats.prompt_tokens));
    generated.row({model}, number(stats.generated_tokens));
    for (const auto reason : {wire::FinishReason::kStop, wire::FinishReason::kLength}) {
      success.row({model, std::string(wire::finish_name(reason))},
                  number(stats.finished.at(static_cast<std::size_t>(reason))));
    }
    ended.row({model, "succeeded"}, number(stats.ended[ModelStats::kSucceeded]))
        .row({model, "failed"}, number(stats.ended[ModelStats::kFailed]))
        .row({model, "cancelled"}, number(stats.ended[ModelStats::kCancelled]))
        .row({model, "expired"}, number(stats.ended[ModelStats::kExpired]));
  }
}

void Writer::refusals() {
  Family& family =
      registry.counter("holdfast_requests_refused_total",
                       "Submissions that were refused, by the typed reason.", {"reason"});
  const auto& refused = machine.core().stats.refused;
  for (std::size_t code = 0; code < refused.size(); ++code) {
    // Refusals that a submission can get are always listed, others once they have happened.
    const bool usual = code <= static_cast<std::size_t>(Errc::kIdempotencyMismatch);
    if (!usual && refused[code] == 0) continue;
    family.row({std::string(errc_name(static_cast<Errc>(code)))}, number(refused[code]));
  }
}

void Writer::continuity() {
  const core::Counters& c = machine.core().counters;
  const auto count = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    registry.counter(name, help).row(number(value));
  };
  count("holdfast_requests_recovered_total",
        "Requests that had not ended and were found in the database by this process.", c.recovered);
  count("holdfast_requests_deduplicated_total",
        "Submissions that were answered with the request that they had made before.", c.duplicates);
  count("holdfast_choices_dispatched_total", "Choices given to a worker.", c.dispatched);
  count("holdfast_choices_resumed_total", "Of the dispatched: those that had run before.",
        c.resumed);
  count("holdfast_choices_adopted_total",
        "Choices that a worker went on with after a restart of the daemon.", c.adopted);
  count("holdfast_choices_returned_total", "Choices that a worker handed back.", c.returned);
  count("holdfast_choices_requeued_total", "Choices that were queued again.", c.requeued);
  count("holdfast_choices_gave_way_total",
        "Choices that were queued again for a tenant below its share of the slots.", c.preempted);
  count("holdfast_tokens_replayed_total",
        "Committed tokens that were given to a worker again to go on from.", c.replayed_tokens);
  count("holdfast_tokens_deduplicated_total",
        "Tokens that came once more from a worker, equal to what was stored.", c.duplicate_tokens);
  count("holdfast_stale_events_total", "Results under a fence that is not the current one.",
        c.stale_events);
  count("holdfast_determinism_violations_total",
        "Tokens that came differently when they were computed again.", c.violations);
  count("holdfast_workers_lost_total",
        "Workers that were given up: ended, stopped, or silent without waiting for a processor.",
        c.workers_lost);
  count("holdfast_worker_suspicions_total", "Times that a worker was silent or stopped.",
        c.suspicions);
  count("holdfast_false_suspicions_total", "Suspect workers that spoke again with all they had.",
        c.false_suspicions);
  count("holdfast_node_suspicions_total", "Times that no datagrams of a node arrived.",
        c.node_suspicions);
  count("holdfast_node_false_alarms_total",
        "Of them: nodes whose datagrams arrived again in the same session.", c.node_false_alarms);
  count("holdfast_second_attempts_total",
        "Attempts begun on an idle worker because the first one's worker was suspect.",
        c.second_attempts);
  count("holdfast_breakers_opened_total", "Workers or models given a pause after failures.",
        c.breakers_opened);
  count("holdfast_model_idle_unloads_total", "Models that were unloaded because nobody used them.",
        c.idle_unloads);
  count("holdfast_envelope_drifts_total", "Loads that took more or less memory than was reserved.",
        c.envelope_drifts);
  count("holdfast_memory_pressures_total",
        "Times a machine, or a control group, became short of memory.", c.memory_pressures);
  count("holdfast_pressure_unloads_total", "Idle models unloaded because memory was short.",
        c.pressure_unloads);
  count("holdfast_requests_retired_total", "Ended requests deleted by retention.", c.retired);
}

void Writer::queue() {
  Family& running = registry.gauge("holdfast_num_requests_running", "Choices on a worker.",
                                   {"model_name", "priority"});
  Family& waiting = registry.gauge("holdfast_num_requests_waiting",
                                   "Choices that wait for a worker.", {"model_name", "priority"});
  Family& oldest = registry.gauge("holdfast_queue_oldest_wait_seconds",
                                  "How long the oldest waiting choice has waited.");
  Family& tenant_running =
      registry.gauge("holdfast_tenant_requests_running", "Choices on a worker.", {"tenant"});
  Family& tenant_waiting = registry.gauge("holdfast_tenant_requests_waiting",
                                          "Choices that wait for a worker.", {"tenant"});
  for (const auto& [name, model] : machine.registry().models()) {
    for (const char* priority : kClasses) {
      running.row({models.of(name), priority}, 0);
      waiting.row({models.of(name), priority}, 0);
    }
  }
  std::int64_t oldest_us = 0;
  for (const core::QueueLine& line : machine.lifecycle().queue_lines(facts.now_us)) {
    const char* priority = kClasses[static_cast<std::size_t>(line.priority)];
    running.row({models.of(line.model), priority}, number(line.running));
    waiting.row({models.of(line.model), priority}, number(line.waiting));
    tenant_running.row({tenants.of(line.tenant)}, number(line.running));
    tenant_waiting.row({tenants.of(line.tenant)}, number(line.waiting));
    oldest_us = std::max(oldest_us, line.oldest_wait_us);
  }
  tenant_running.row({"other"}, 0);
  tenant_waiting.row({"other"}, 0);
  oldest.row(number(oldest_us) / 1e6);
  const core::UsageCounters& all = machine.lifecycle().requests().usage().all();
  registry.gauge("holdfast_requests_live", "Requests that have not ended.")
      .row(number(all.requests + machine.lifecycle().unread()));
  registry.gauge("holdfast_requests_unread", "Of the live: still to be read after a start.")
      .row(number(machine.lifecycle().unread()));
  registry.gauge("holdfast_requests_preparing", "Submissions at an ingress helper.")
      .row(number(machine.jobs().size()));
  registry.gauge("holdfast_requests_quarantined", "Requests set aside: workers died running them.")
      .row(number(machine.lifecycle().quarantined()));
  registry.gauge("holdfast_prompt_bytes_live", "Prompt bytes of live requests.")
      .row(number(all.bytes));
  registry.gauge("holdfast_queue_paused", "1 while an operator holds dispatch back.")
      .row(machine.core().paused ? 1 : 0);
}

void Writer::daemon() {
  registry.gauge("holdfast_build_info", "Always 1; the version is a label.", {"version"})
      .row({std::string(kVersion)}, 1);
  registry.gauge("holdfast_daemon_uptime_seconds", "Since the daemon's start.")
      .row(number(facts.now_us - facts.started_us) / 1e6);
  registry.gauge("holdfast_daemon_epoch", "Starts of a daemon on this database.")
      .row(number(machine.core().fences.epoch()));
  registry.gauge("holdfast_config_version", "The newest version of the configuration.")
      .row(number(machine.config_history().config_version().version));
  registry.gauge("holdfast_daemon_draining", "1 while the daemon lets work end before it does.")
      .row(machine.core().draining ? 1 : 0);
  registry.gauge("holdfast_daemon_streams", "Streams that clients and gateways have open.")
      .row(number(machine.streams().size()));
  registry.gauge("holdfast_ingress_helpers", "Ingress helpers that are connected.")
      .row(number(machine.jobs().helpers()));
  registry.counter("holdfast_malformed_messages_total", "Messages that could not be read.")
      .row(number(facts.malformed));
  Family& restarts =
      registry.counter("holdfast_process_restarts_total",
                       "Times that the supervisor started a child again.", {"role", "name"});
  for (const SupervisedChild& child : facts.children) {
    const bool worker = child.role == "worker";
    restarts.row({child.role, worker ? workers.of(child.name) : child.name},
                 number(child.restarts));
  }
  Family& problems = registry.gauge("holdfast_problems",
                                    "What `holdfast status` lists as not in order.", {"level"});
  problems.row({"error"}, 0).row({"warning"}, 0);
  for (const Problem& problem : find_problems(machine, store, facts)) {
    problems.row({problem.error ? "error" : "warning"}, 1);
  }
}

void Writer::storage() {
  registry
      .counter("holdfast_commits_total", "Groups of row changes written, by durability.",
               {"durability"})
      .row({"full"}, number(facts.full_commits))
      .row({"normal"}, number(facts.commits - facts.full_commits));
  registry.gauge("holdfast_wal_bytes", "Of the write-ahead log since its last checkpoint.")
      .row(number(store.wal_pages() * kWalFrameBytes));
  registry.gauge("holdfast_disk_free_bytes", "Of the disk of the database.")
      .row(number(store.disk_free()));
  const auto loss = store.log_loss();
  registry
      .gauge("holdfast_database_lost_groups",
             "Synced groups that a start found lost with the end of the log, until accepted.")
      .row(number(loss && *loss ? (*loss)->expected - (*loss)->found : 0));
  registry.gauge("holdfast_storage_low", "1 while too little disk is free for new requests.")
      .row(machine.core().storage_low ? 1 : 0);
}

void Writer::model_states() {
  Family& states = registry.gauge("holdfast_models", "Registered models by state.", {"state"});
  Family& ready =
      registry.gauge("holdfast_model_ready", "1 if the model is ready.", {"model_name"});
  Family& load_requested =
      registry.gauge("holdfast_model_wanted", "1 if the model is to be loaded.", {"model_name"});
  for (int i = 0; i <= static_cast<int>(core::ModelState::kFailed); ++i) {
    states.row({std::string(core::model_state_name(static_cast<core::ModelState>(i)))}, 0);
  }
  for (const auto& [name, model] : machine.registry().models()) {
    const core::ModelState state = model.row.state;
    states.row({std::string(core::model_state_name(state))}, 1);
    if (models.of(name) != name) continue;
    ready.row({name}, state == core::ModelState::kReady ? 1 : 0);
    load_requested.row({name}, model.row.load_requested ? 1 : 0);
  }
}

void Writer::loads() {
  const std::vector<std::string_view> labels = {"model_name", "worker"};
  Family& pages = registry.gauge("holdfast_kv_pages", "KV pages of a load.", labels);
  Family& used = registry.gauge("holdfast_kv_pages_used", "Of them: given to what runs.", labels);
  Family& slots =
      registry.gauge("holdfast_load_slots", "Sequences that a load runs at once.", labels);
  Family& running = registry.gauge("holdfast_load_requests_running", "Choices of a load.", labels);
  Family& memory = registry.gauge("holdfast_load_memory_bytes",
                                  "Of a load: what is reserved for it, and what it says it took.",
                                  {"model_name", "worker", "part"});
  Family& share =
      registry.gauge("holdfast_kv_cache_usage_perc",
                     "Share of the KV pages that are in use; 1 is all of them.", {"model_name"});
  std::map<std::string, std::pair<double, double>> sums;  // used and all pages by model
  for (const auto& [id, load] : machine.loads().all()) {
    if (load.worker == 0) continue;
    const auto worker = machine.fleet().workers().find(load.worker);
    if (worker == machine.fleet().workers().end()) continue;
    const Labels at = {models.of(load.row.model), workers.of(worker->second.hello.worker_key)};
    pages.row(at, number(std::int64_t{load.row.pages}));
    used.row(at, number(load.pages_used));
    slots.row(at, number(std::int64_t{load.row.slots}));
    running.row(at, number(static_cast<std::int64_t>(load.running.size())));
    const std::pair<const char*, std::int64_t> parts[] = {{"reserved", load.row.bytes},
                                                          {"weights", load.memory.weights},
                                                          {"kv", load.memory.kv},
                                                          {"scratch", load.memory.scratch},
                                                          {"taken", load.memory.taken}};
    for (const auto& [part, bytes] : parts) memory.row({at[0], at[1], part}, number(bytes));
    sums[at[0]].first += number(load.pages_used);
    sums[at[0]].second += number(std::int64_t{load.row.pages});
  }
  for (const auto& [model, sum] : sums) {
    share.row({model}, sum.second > 0 ? sum.first / sum.second : 0);
  }
}

void Writer::worker_states() {
  Family& info = registry.gauge("holdfast_worker_info",
                                "Always 1; kernels is the family that the processor runs.",
                                {"worker", "host", "device", "kernels", "engine"});
  Family& states = registry.gauge("holdfast_workers", "Connected workers by state.", {"state"});
  Family& threads = registry.gauge("holdfast_worker_threads", "Compute threads.", {"worker"});
  Family& memory =
      registry.gauge("holdfast_worker_resident_bytes", "Of the worker's process.", {"worker"});
  Family& step =
      registry.gauge("holdfast_worker_step_seconds", "Recent mean of an engine step.", {"worker"});
  Family& steps = registry.counter("holdfast_worker_steps_total", "Engine steps.", {"worker"});
  Family& tokens = registry.counter("holdfast_worker_generated_tokens_total",
                                    "Tokens that a worker has sampled.", {"worker"});
  Family& prefill =
      registry.counter("holdfast_worker_prefill_tokens_total",
                       "Tokens that a worker has read: prompts, and what it resumed.", {"worker"});
  Family& drafts = registry.counter("holdfast_worker_draft_tokens_total",
                                    "Tokens that a worker has guessed and computed.", {"worker"});
  Family& accepted = registry.counter("holdfast_worker_accepted_draft_tokens_total",
                                      "Of these, those that were right.", {"worker"});
  Family& preemptions = registry.counter(
      "holdfast_num_preemptions_total",
      "Sequences that gave their KV pages back and were computed again.", {"worker"});
  Family& allocations =
      registry.counter("holdfast_worker_allocations_total",
                       "Device and engine allocations; requests make none.", {"worker"});
  states.row({"ready"}, 0).row({"suspect"}, 0).row({"draining"}, 0).row({"quarantined"}, 0);
  states.row({"lost"}, number(static_cast<std::int64_t>(machine.fleet().lost_workers().size())));
  for (const auto& [peer, worker] : machine.fleet().workers()) {
    const wire::Hello& h = worker.hello;
    const std::string& name = workers.of(h.worker_key);
    const bool listed = name == h.worker_key;
    states.row({std::string(core::worker_state_name(worker))}, 1);
    if (listed) info.row({name, h.host, h.device, h.kernels, h.engine}, 1);
    threads.row({name}, number(std::int64_t{h.threads}));
    memory.row({name}, number(h.memory.rss));
    if (listed) step.row({name}, worker.stats.step_ms / 1000);
    steps.row({name}, number(worker.stats.steps));
    tokens.row({name}, number(worker.stats.tokens));
    prefill.row({name}, number(worker.stats.prefill_tokens));
    drafts.row({name}, number(worker.stats.draft_tokens));
    accepted.row({name}, number(worker.stats.accepted_draft_tokens));
    preemptions.row({name}, number(worker.stats.preemptions));
    allocations.row({name}, number(worker.stats.allocations));
  }
}

void Writer::nodes() {
  Family& nodes = registry.gauge(
      "holdfast_nodes", "Connected nodes by the signs that they are judged by.", {"liveness"});
  nodes.row({"datagrams"}, 0).row({"tcp"}, 0);
  std::int64_t longest_us = 0;
  for (const auto& [name, node] : machine.nodes().all()) {
    if (node.peer == 0) continue;
    nodes.row({std::string(core::liveness_name(node.signs.liveness))}, 1);
    longest_us = std::max(longest_us, node.signs.last.longest_us);
  }
  registry
      .gauge("holdfast_node_silence_seconds",
             "Longest time without a datagram of a connected node, of the last minute.")
      .row(number(longest_us) / 1e6);
  registry
      .counter("holdfast_node_datagrams_refused_total",
               "Datagrams without a session, or with a tag of another key.")
      .row(number(facts.datagrams_refused));
}

/// The standby of this daemon, if it has one or a record.
void Writer::pair() {
  Family& states = registry.gauge("holdfast_standby",
                                  "State of the standby: 1 for the one that holds.", {"state"});
  Family& term =
      registry.gauge("holdfast_term", "Number of the primary, rises with each takeover.");
  Family& unconfirmed = registry.gauge("holdfast_standby_unconfirmed",
                                       "Messages that the standby has not confirmed.");
  Family& shipped = registry.counter("holdfast_standby_shipped_bytes_total",
                                     "Changes of the database that were sent to a standby.");
  // A server without a standby has no row of the others: the alert on `in_step` is for pairs alone.
  states.row({"none"}, facts.pair ? 0 : 1);
  const auto pair = facts.pair.value_or(ProcessFacts::Pair{});
  term.row(number(pair.term));
  unconfirmed.row(number(pair.unconfirmed));
  shipped.row(number(pair.shipped_bytes));
  if (!facts.pair) return;
  for (const char* state : {"alone", "copying", "in_step", "missing"}) {
    states.row({state}, pair.state == state ? 1 : 0);
  }
}

/// Hits of the workers' prefix caches.
void Writer::prefix_groups() {
  Family& tokens = registry.counter(
      "holdfast_prefix_cache_queries_total",
      "Tokens of prompts (and of what was resumed) that were looked up in prefix caches.",
      {"group"});
  Family& cached = registry.counter("holdfast_prefix_cache_hits_total",
                                    "Of these, tokens that were there already.", {"group"});
  for (const auto& [group, stats] : machine.core().stats.prefix_groups) {
    tokens.row({group}, number(stats.tokens));
    cached.row({group}, number(stats.cached));
  }
}

/// Memory of a device, which workers of one host share.
void Writer::devices() {
  Family& family = registry.gauge(
      "holdfast_device_memory_bytes",
      "Of a device: total, free, used by workers, reservable for loads, reserved by loads.",
      {"host", "device", "state"});
  for (const json& device : host_devices_json(machine)) {
    for (const char* state : {"total", "free", "used", "reservable", "reserved"}) {
      family.row(
          {device.at("host").get<std::string>(), device.at("device").get<std::string>(), state},
          number(device.at(std::string(state) + "_bytes")));
    }
  }
  Family& short_of = registry.gauge("holdfast_memory_short",
                                    "1 while a machine, or a control group, is short of memory: "
                                    "nothing is loaded there.",
                                    {"host", "pool"});
  Family& stalled = registry.gauge("holdfast_memory_stalled_ratio",
                                   "Share of the last ten seconds in which everybody there waited "
                                   "for memory.",
                                   {"host", "pool"});
  for (const auto& [key, pool] : machine.memory().pools()) {
    short_of.row({pool.host, key}, pool.pressed_since_us != 0 ? 1 : 0);
    stalled.row({pool.host, key}, static_cast<double>(pool.last.stall) / 10'000);
  }
}

void Writer::limits() {
  Family& limit =
      registry.gauge("holdfast_limit", "A bound that is in effect; 0 is none.", {"name"});
  Family& used = registry.gauge("holdfast_limit_used", "What counts against that bound.", {"name"});
  for (const json& bound : limits_json(machine, store)) {
    const std::string name = bound.at("name").get<std::string>();
    limit.row({name}, number(bound.at("limit")));
    used.row({name}, number(bound.at("used")));
  }
}

}  // namespace

json metrics_document(const core::Machine& machine, const store::Store& store,
                      const ProcessFacts& facts) {
  Writer writer(machine, store, facts);
  writer.times();
  writer.ends();
  writer.refusals();
  writer.continuity();
  writer.queue();
  writer.daemon();
  writer.storage();
  writer.model_states();
  writer.loads();
  writer.worker_states();
  writer.nodes();
  writer.pair();
  writer.prefix_groups();
  writer.devices();
  writer.limits();
  return writer.registry.document();
}

}  // namespace holdfast::daemon
