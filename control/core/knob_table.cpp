// The table of knobs.
#include <array>

#include "control/core/config.h"
#include "shared/base/roots.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kBig = 1LL << 40;

constexpr std::array kKnobs = {
    Knob{"queue.max_requests", &Config::queue_max_requests, 1, 10'000'000, "requests",
         "accepted requests that have not ended; more are refused with queue_full", false},
    Knob{"queue.max_tenant_requests", &Config::queue_max_tenant_requests, 1, 10'000'000, "requests",
         "the same for each tenant", false},
    Knob{"queue.max_bytes", &Config::queue_max_bytes, 1 << 20, kBig, "bytes",
         "prompts of requests that have not ended", false},
    Knob{
        "queue.max_waiting", &Config::queue_max_waiting, 0, 10'000'000, "requests",
        "accepted requests that no worker has begun or goes on with; 0 = no bound but max_requests",
        false},
    Knob{"queue.max_running", &Config::queue_max_running, 0, 1'000'000, "choices",
         "choices that run at once on all workers, others wait; 0 = every slot", false},
    Knob{"queue.max_pages", &Config::queue_max_pages, 0, 1LL << 32, "pages",
         "KV pages of 64 tokens that running choices may come to need, prompt + max_tokens each; "
         "others wait, one that needs more alone is refused; 0 = no bound",
         false},
    Knob{"queue.preempt", &Config::queue_preempt, 0, 1, "",
         "1: work of a tenant above its share of a model's slots, the youngest, gives way to one "
         "below its own and goes on later; 0: that one waits until a slot becomes free",
         false},
    Knob{"queue.max_preparing", &Config::queue_max_preparing, 1, 1'000'000, "requests",
         "submissions that wait for an ingress helper", false},
    Knob{
        "queue.read_requests", &Config::queue_read_requests, 1, 1'000'000, "requests",
        "queued requests that a start reads before it serves, and each turn of the loop afterwards",
        true},
    Knob{"request.max_prompts", &Config::request_max_prompts, 1, 65'536, "prompts",
         "prompts in one request", false},
    Knob{"request.max_choices", &Config::request_max_choices, 1, 65'536, "choices",
         "prompts x n of one request", false},
    Knob{"request.max_meta_bytes", &Config::request_max_meta_bytes, 0, 16 << 20, "bytes",
         "opaque data that a gateway keeps with a request", false},
    Knob{"request.max_prompt_tokens", &Config::request_max_prompt_tokens, 0, 1LL << 32, "tokens",
         "in each prompt of a request; 0 = what the model's context holds", false},
    Knob{"request.max_output_tokens", &Config::request_max_output_tokens, 0, 1LL << 32, "tokens",
         "max_tokens that a request may ask for, and gets if it asks for none; 0 = what the "
         "context holds",
         false},
    Knob{"request.max_bytes", &Config::request_max_bytes, 0, 1LL << 32, "bytes",
         "prompts and meta of one request; 0 = what a message holds", false},
    Knob{"request.max_score_bytes", &Config::request_max_score_bytes, 0, 16 << 20, "bytes",
         "log-probabilities of the prompts of one request: 12 + 8 N a token and choice, where N "
         "alternatives are asked for",
         false},
    Knob{"requests.ended_in_memory", &Config::requests_ended_in_memory, 1, 1'000'000, "requests",
         "ended requests that are answered without reading the database", false},
    Knob{"workers.adoption_window_ms", &Config::workers_adoption_window_ms, 0, 60'000, "ms",
         "after a start: how long running work waits for its worker to come back", true},
    Knob{"workers.reconnect_ms", &Config::workers_reconnect_ms, 0, 600'000, "ms",
         "a lost worker that comes back within this time keeps its loaded models", false},
    Knob{"requests.disconnect_grace_ms", &Config::requests_disconnect_grace_ms, 0, 86'400'000, "ms",
         "a request with on_disconnect=cancel is cancelled this long after its last client left",
         false},
    Knob{"requests.class_wait_ms", &Config::requests_class_wait_ms, 0, 86'400'000, "ms",
         "how long a request with committed tokens waits for a worker of its numerics class",
         false},
    Knob{"streams.chunk_tokens", &Config::streams_chunk_tokens, 1, 65'536, "tokens",
         "most tokens in one EVENT", false},
    Knob{"streams.max_window", &Config::streams_max_window, 1, 1 << 24, "tokens",
         "largest window that an ATTACH may ask for", false},
    Knob{"streams.retry_ms", &Config::streams_retry_ms, 1, 10'000, "ms",
         "pause before a client whose socket was full is tried again", false},
    Knob{"ingress.timeout_ms", &Config::ingress_timeout_ms, 10, 600'000, "ms",
         "time for a helper to prepare a request, waiting for a helper included", false},
    Knob{"ingress.inspect_timeout_ms", &Config::ingress_inspect_timeout_ms, 1000, 86'400'000, "ms",
         "time for a helper to read and hash a model file", false},
    Knob{"ingress.tries", &Config::ingress_tries, 1, 100, "tries",
         "helpers that one job may use up before it is refused", false},
    Knob{"models.load_tries", &Config::models_load_tries, 1, 1000, "tries",
         "failed loads in a row after which a model is failed", false},
    Knob{"models.load_backoff_ms", &Config::models_load_backoff_ms, 0, 600'000, "ms",
         "pause after the first failed load, doubled by each further one", false},
    Knob{"models.load_backoff_max_ms", &Config::models_load_backoff_max_ms, 0, 3'600'000, "ms",
         "longest pause between two tries", false},
    Knob{"models.load_timeout_ms", &Config::models_load_timeout_ms, 100, 86'400'000, "ms",
         "a load without any report for this long has failed", false},
    Knob{"models.loads_at_once", &Config::models_loads_at_once, 1, 1000, "loads",
         "loads in progress on all workers together; others wait", false},
    Knob{"models.dwell_ms", &Config::models_dwell_ms, 0, 86'400'000, "ms",
         "a model is not unloaded to make room for another before it was ready for so long", false},
    Knob{"models.idle_unload_s", &Config::models_idle_unload_s, 0, 31'536'000, "s",
         "a model that ran nothing for so long is unloaded until it is asked for again; 0 = never",
         false},
    Knob{"models.client_keep_alive", &Config::models_client_keep_alive, 0, 1, "",
         "1: the keep_alive of a request says how long its model stays after it, instead of "
         "models.idle_unload_s; 0: it has no effect",
         false},
    Knob{"models.drift_percent", &Config::models_drift_percent, 0, 1000, "percent",
         "a load that takes so much more or less than was reserved for it raises a warning", false},
    Knob{.name = "models.roots",
         .unit = "directories",
         .doc = "DIR:DIR…: a model's file must lie below one of them, links followed; empty = "
                "anywhere. What is loaded already stays",
         .text = &Config::model_roots,
         .good = good_roots,
         .local = true},
    Knob{"models.replicas", &Config::models_replicas, 0, 1000, "workers",
         "workers that a wanted model is loaded on; 0 = every worker with room", false},
    Knob{"models.fleet_wait_ms", &Config::models_fleet_wait_ms, 0, 86'400'000, "ms",
         "a model that no connected device can ever hold waits this long for another one, then "
         "fails with placement_unsupported",
         false},
    Knob{"models.memory_percent", &Config::models_memory_percent, 1, 100, "percent",
         "share of a memory (of a machine, a control group with a limit, a device) that loads may "
         "reserve",
         false},
    Knob{"memory.min_available_percent", &Config::memory_min_available_percent, 0, 50, "percent",
         "share of a machine's memory, or of a control group's limit, that loads leave available; "
         "with less nothing new is loaded and idle models are unloaded",
         false},
    Knob{
        "memory.max_stall_percent", &Config::memory_max_stall_percent, 0, 100, "percent",
        "the same while everybody there waits for memory for so large a part of the time (pressure "
        "stall information, full avg10); 0 = not looked at",
        false},
    Knob{"memory.evict_pause_ms", &Config::memory_evict_pause_ms, 0, 600'000, "ms",
         "pause between two idle models that are unloaded because memory is short", false},
    Knob{"workers.gone_hold_ms", &Config::workers_gone_hold_ms, 0, 3'600'000, "ms",
         "what a lost worker had reserved counts for this long, or until its process is known to "
         "have ended",
         false},
    Knob{"workers.returned_hold_ms", &Config::workers_returned_hold_ms, 0, 60'000, "ms",
         "a worker that hands work back gets no new work for this long", false},
    Knob{"blame.alone_after", &Config::blame_alone_after, 1, 100, "deaths",
         "deaths of workers after which a request runs alone", false},
    Knob{"blame.quarantine_after", &Config::blame_quarantine_after, 1, 100, "deaths",
         "deaths of workers after which a request is quarantined", false},
    Knob{"aliases.ready_timeout_ms", &Config::aliases_ready_timeout_ms, 1000, 86'400'000, "ms",
         "how long a change of an alias, or a canary, waits until its model is ready", false},
    Knob{"canary.window_ms", &Config::canary_window_ms, 100, 86'400'000, "ms",
         "length of a window, at whose end a canary is compared with the stable side", false},
    Knob{"canary.min_requests", &Config::canary_min_requests, 1, 1'000'000, "requests",
         "requests of a side in a window without which nothing is said about it", false},
    Knob{"canary.clear_errors", &Config::canary_clear_errors, 1, 1'000'000, "failures",
         "failures on the canary that roll it back at once if most of its requests fail", false},
    Knob{"canary.max_error_percent", &Config::canary_max_error_percent, 0, 100, "percent",
         "points by which the canary's share of failures may lie above that of the stable side",
         false},
    Knob{"canary.max_refusal_percent", &Config::canary_max_refusal_percent, 0, 100, "percent",
         "the same for its share of refusals", false},
    Knob{"canary.max_queue_percent", &Config::canary_max_queue_percent, 0, 1'000'000, "percent",
         "choices that wait for the canary, of its slots, if that is twice the stable side's too",
         false},
    Knob{"canary.max_ttft_percent", &Config::canary_max_ttft_percent, 100, 100'000, "percent",
         "the canary's 95th percentile of the time to the first token, of the stable side's",
         false},
    Knob{"canary.ttft_slack_ms", &Config::canary_ttft_slack_ms, 0, 600'000, "ms",
         "a difference of that time that never counts", false},
    Knob{"canary.max_itl_percent", &Config::canary_max_itl_percent, 100, 100'000, "percent",
         "the canary's 95th percentile of the time between tokens, of the stable side's", false},
    Knob{"canary.itl_slack_ms", &Config::canary_itl_slack_ms, 0, 600'000, "ms",
         "a difference of that time that never counts", false},
    Knob{"breaker.failures", &Config::breaker_failures, 1, 1000, "failures",
         "failures in a row after which a worker, or a model, gets no work for a while", false},
    Knob{"breaker.pause_ms", &Config::breaker_pause_ms, 0, 3'600'000, "ms",
         "how long that is at first; doubled by each further failure", false},
    Knob{"breaker.pause_max_ms", &Config::breaker_pause_max_ms, 0, 86'400'000, "ms",
         "how long it is at most", false},
    Knob{"nodes.fetch", &Config::nodes_fetch, 0, 1, "",
         "1: a node that lacks the file of a model which it should load fetches it from a machine "
         "that has it; 0: it waits until somebody copies it there",
         false},
    Knob{"nodes.fetch_bytes_s", &Config::nodes_fetch_bytes_s, 0, kBig, "bytes/s",
         "most that each node reads so; 0 = no limit", false},
    Knob{"link.group_messages", &Config::link_group_messages, 1, 65'536, "messages",
         "most messages of each socket in one transaction", false},
    Knob{"link.worker_heartbeat_ms", &Config::link_worker_heartbeat_ms, 0, 60'000, "ms",
         "a worker that says nothing for this long is asked for a sign of life; 0 = never, and it "
         "is not looked at whether its process is stopped",
         false},
    Knob{"link.worker_timeout_ms", &Config::link_worker_timeout_ms, 10, 600'000, "ms",
         "a worker that gives no sign of life for this long is suspect: it gets no new work",
         false},
    Knob{"link.worker_lost_ms", &Config::link_worker_lost_ms, 10, 600'000, "ms",
         "a worker that gives none for this long and had not to wait for a processor is lost: its "
         "work is dispatched again",
         false},
    Knob{"link.worker_stopped_ms", &Config::link_worker_stopped_ms, 0, 600'000, "ms",
         "a worker whose process is stopped (SIGSTOP, a debugger) for this long is lost", false},
    Knob{"link.node_timeout_ms", &Config::link_node_timeout_ms, 20, 600'000, "ms",
         "a node of which no datagram arrives for this long, or at which none arrives, is suspect, "
         "and its workers get no new work; one is sent each 10 ms",
         false},
    Knob{"link.node_lost_ms", &Config::link_node_lost_ms, 20, 600'000, "ms",
         "a node of which this holds for this long is lost: its workers' work is dispatched again",
         false},
    Knob{"link.client_heartbeat_ms", &Config::link_client_heartbeat_ms, 0, 60'000, "ms",
         "ZMTP heartbeat to clients and operators; 0 = off", true},
    Knob{"link.client_timeout_ms", &Config::link_client_timeout_ms, 10, 600'000, "ms",
         "a client that is silent for this long is gone", true},
    Knob{"link.high_water", &Config::link_high_water, 16, 1'000'000, "messages",
         "messages that wait in a socket for each peer", true},
    Knob{"link.client_message_bytes", &Config::link_client_message_bytes, 65'536, 1 << 30, "bytes",
         "largest message of a client or operator", true},
    Knob{"link.worker_message_bytes", &Config::link_worker_message_bytes, 65'536, 1 << 30, "bytes",
         "largest message of a worker", true},
    Knob{"link.ingress_message_bytes", &Config::link_ingress_message_bytes, 65'536, 1 << 30,
         "bytes", "largest message of a helper (a tokenizer is one message)", true},
    Knob{"link.outbox_messages", &Config::link_outbox_messages, 16, 10'000'000, "messages",
         "messages kept for a peer whose socket is full, before it counts as lost", true},
    Knob{"storage.reserve_bytes", &Config::storage_reserve_bytes, 0, 1LL << 34, "bytes",
         "file that is given up when the disk is full, so that running work can end", true},
    Knob{"objects.max_count", &Config::objects_max_count, 0, 1LL << 32, "objects",
         "files, batches and responses that gateways keep for their clients", false},
    Knob{"objects.max_bytes", &Config::objects_max_bytes, 0, kBig, "bytes",
         "of all of them, with their content", false},
    Knob{"objects.max_tenant_percent", &Config::objects_max_tenant_percent, 1, 100, "percent",
         "of objects.max_count and objects.max_bytes that one tenant may take; 100 = all", false},
    Knob{
        "objects.reserve_bytes", &Config::objects_reserve_bytes, 1 << 16, kBig, "bytes",
        "kept free of clients' objects: for keys and webhooks, and as much again for what gateways "
        "note (open batches, deliveries)",
        false},
    Knob{"storage.min_free_bytes", &Config::storage_min_free_bytes, 0, kBig, "bytes",
         "free disk space below which new requests are refused", false},
    Knob{"storage.refuse_lost_log", &Config::storage_refuse_lost_log, 0, 1, "",
         "1: a start is refused when the end of the database's log is lost, until `holdfast db "
         "accept-loss`; 0: it is told and the start goes on",
         true},
    Knob{"ha.strict", &Config::ha_strict, 0, 1, "",
         "1: requests are accepted only while a standby has them too; 0: also without a standby, "
         "once the record says that there is none",
         false},
    Knob{"ha.synced", &Config::ha_synced, 0, 1, "",
         "1: the standby's disk must have what an answer tells; 0: its memory, so that either "
         "machine may be lost, not both at once",
         false},
    Knob{"ha.silence_ms", &Config::ha_silence_ms, 20, 60'000, "ms",
         "a standby that confirms nothing for so long is left out", false},
    Knob{"retention.hours", &Config::retention_hours, 0, 876'000, "hours",
         "requests that ended this long ago are deleted; 0 = never by age", false},
    Knob{"retention.key_hours", &Config::retention_key_hours, 0, 8760, "hours",
         "no ended request is deleted earlier, also for want of room: its key must find it", false},
    Knob{
        "retention.max_bytes", &Config::retention_max_bytes, 1 << 20, 1LL << 50, "bytes",
        "with more in use in the database, the oldest ended requests are deleted before their time",
        false},
    Knob{"drain.limit_ms", &Config::drain_limit_ms, 0, 86'400'000, "ms",
         "time that SIGTERM gives running work to end", false},
};

// Knobs that tenants and models share.
constexpr Knob kSubjectRequests{
    "max_requests",
    nullptr,
    0,
    10'000'000,
    "requests",
    "requests that have not ended; more are refused; 0 = no bound of its own",
    false,
    &SubjectConfig::max_requests};
constexpr Knob kSubjectWaiting{"max_waiting",
                               nullptr,
                               0,
                               10'000'000,
                               "requests",
                               "requests that no worker has begun; more are refused; 0 = no bound",
                               false,
                               &SubjectConfig::max_waiting};
constexpr Knob kSubjectRunning{"max_running",
                               nullptr,
                               0,
                               1'000'000,
                               "choices",
                               "choices that run at once, others wait; 0 = no bound",
                               false,
                               &SubjectConfig::max_running};
constexpr Knob kSubjectPages{
    "max_pages",
    nullptr,
    0,
    1LL << 32,
    "pages",
    "KV pages that its running choices may come to need, others wait; one that "
    "needs more alone is refused; 0 = no bound",
    false,
    &SubjectConfig::max_pages};
constexpr Knob kSubjectPrompt{"max_prompt_tokens",
                              nullptr,
                              0,
                              1LL << 32,
                              "tokens",
                              "in each prompt of a request; 0 = no bound of its own",
                              false,
                              &SubjectConfig::max_prompt_tokens};
constexpr Knob kSubjectOutput{"max_output_tokens",
                              nullptr,
                              0,
                              1LL << 32,
                              "tokens",
                              "max_tokens of a request; 0 = no bound of its own",
                              false,
                              &SubjectConfig::max_output_tokens};
constexpr Knob kSubjectPromptBytes{
    "max_bytes", nullptr,
    0,           kBig,
    "bytes",     "prompts of its requests that have not ended; 0 = no bound of its own",
    false,       &SubjectConfig::max_bytes};

constexpr Knob kSubjectObjects{
    "max_objects",
    nullptr,
    0,
    10'000'000,
    "objects",
    "files, batches and responses that are kept; 0 = no bound of its own",
    false,
    &SubjectConfig::max_objects};
constexpr Knob kSubjectObjectBytes{"max_object_bytes",
                                   nullptr,
                                   0,
                                   kBig,
                                   "bytes",
                                   "of its files, batches and responses; 0 = no bound of its own",
                                   false,
                                   &SubjectConfig::max_object_bytes};
constexpr Knob kSubjectResponses{"max_responses",
                                 nullptr,
                                 0,
                                 10'000'000,
                                 "responses",
                                 "stored responses; 0 = no bound of its own",
                                 false,
                                 &SubjectConfig::max_responses};
constexpr Knob kSubjectOpenBatches{"max_open_batches",
                                   nullptr,
                                   0,
                                   1'000'000,
                                   "batches",
                                   "batches that have not ended; 0 = no bound of its own",
                                   false,
                                   &SubjectConfig::max_open_batches};

Result<void> good_group(std::string_view value) {
  if (value.size() <= 128) return {};
  return Error{Errc::kUsage, "expected the name of a group of at most 128 bytes"};
}

constexpr std::array kTenantKnobs = {
    Knob{"weight", nullptr, 1, 1000, "", "share of the work beside that of the other tenants",
         false, &SubjectConfig::weight},
    kSubjectRequests,
    kSubjectWaiting,
    kSubjectRunning,
    kSubjectPages,
    kSubjectPrompt,
    kSubjectOutput,
    kSubjectPromptBytes,
    kSubjectObjects,
    kSubjectObjectBytes,
    kSubjectResponses,
    kSubjectOpenBatches,
    Knob{.name = "share_prefixes",
         .unit = "group",
         .doc = "tenants that name the same group share the cache of their prompts' beginnings (a "
                "common system prompt is computed once), and can find out by timing what the "
                "others asked; empty = shared with nobody",
         .good = good_group,
         .subject_text = &SubjectConfig::share_prefixes}};
constexpr std::array kModelKnobs = {
    kSubjectRequests,
    kSubjectWaiting,
    kSubjectRunning,
    kSubjectPages,
    kSubjectPrompt,
    kSubjectOutput,
    kSubjectPromptBytes,
    Knob{"replicas", nullptr, 0, 1000, "workers", "models.replicas for this one", false,
         &SubjectConfig::replicas},
    Knob{"dwell_ms", nullptr, 0, 86'400'000, "ms", "models.dwell_ms for this one", false,
         &SubjectConfig::dwell_ms},
    Knob{"idle_unload_s", nullptr, 0, 31'536'000, "s", "models.idle_unload_s for this one", false,
         &SubjectConfig::idle_unload_s},
};
constexpr std::array kWorkerKnobs = {kSubjectRunning, kSubjectPages};

constexpr std::array kSubjectKinds = {
    SubjectKind{"tenant", &Config::tenants, &Config::tenant, kTenantKnobs},
    SubjectKind{"model", &Config::models, &Config::model, kModelKnobs},
    SubjectKind{"worker", &Config::workers, &Config::worker, kWorkerKnobs},
};

}  // namespace

std::span<const Knob> knobs() {
  return kKnobs;
}

std::span<const SubjectKind> subject_kinds() {
  return kSubjectKinds;
}

}  // namespace holdfast::core
