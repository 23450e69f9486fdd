#include "control/core/config.h"

#include <array>
#include <charconv>

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
    Knob{"queue.max_preparing", &Config::preparing_max, 1, 1'000'000, "requests",
         "submissions that wait for an ingress helper", false},
    Knob{
        "queue.read_requests", &Config::queue_read_requests, 1, 1'000'000, "requests",
        "queued requests that a start reads before it serves, and each turn of the loop afterwards",
        true},
    Knob{"request.max_prompts", &Config::request_prompts_max, 1, 65'536, "prompts",
         "prompts in one request", false},
    Knob{"request.max_choices", &Config::request_choices_max, 1, 65'536, "choices",
         "prompts x n of one request", false},
    Knob{"request.max_meta_bytes", &Config::request_meta_bytes_max, 0, 16 << 20, "bytes",
         "opaque data that a gateway keeps with a request", false},
    Knob{"requests.ended_in_memory", &Config::terminal_cache, 1, 1'000'000, "requests",
         "ended requests that are answered without reading the database", false},
    Knob{"workers.adoption_window_ms", &Config::adoption_window_ms, 0, 60'000, "ms",
         "after a start: how long running work waits for its worker to come back", true},
    Knob{"workers.reconnect_ms", &Config::reconnect_ms, 0, 600'000, "ms",
         "a lost worker that comes back within this time keeps its loaded models", false},
    Knob{"requests.disconnect_grace_ms", &Config::disconnect_grace_ms, 0, 86'400'000, "ms",
         "a request with on_disconnect=cancel is cancelled this long after its last client left",
         false},
    Knob{"requests.class_wait_ms", &Config::class_wait_ms, 0, 86'400'000, "ms",
         "how long a request with committed tokens waits for a worker of its numerics class",
         false},
    Knob{"streams.chunk_tokens", &Config::stream_chunk_tokens, 1, 65'536, "tokens",
         "most tokens in one EVENT", false},
    Knob{"streams.max_window", &Config::stream_window_max, 1, 1 << 24, "tokens",
         "largest window that an ATTACH may ask for", false},
    Knob{"streams.retry_ms", &Config::stream_retry_ms, 1, 10'000, "ms",
         "pause before a client whose socket was full is tried again", false},
    Knob{"ingress.timeout_ms", &Config::ingress_timeout_ms, 10, 600'000, "ms",
         "time for a helper to prepare a request, waiting for a helper included", false},
    Knob{"ingress.inspect_timeout_ms", &Config::ingress_inspect_timeout_ms, 1000, 86'400'000, "ms",
         "time for a helper to read and hash a model file", false},
    Knob{"ingress.tries", &Config::ingress_tries, 1, 100, "tries",
         "helpers that one job may use up before it is refused", false},
    Knob{"models.load_tries", &Config::load_tries, 1, 1000, "tries",
         "failed loads in a row after which a model is failed", false},
    Knob{"models.load_backoff_ms", &Config::load_backoff_ms, 0, 600'000, "ms",
         "pause after the first failed load, doubled by each further one", false},
    Knob{"models.load_backoff_max_ms", &Config::load_backoff_max_ms, 0, 3'600'000, "ms",
         "longest pause between two tries", false},
    Knob{"models.load_timeout_ms", &Config::load_timeout_ms, 100, 86'400'000, "ms",
         "a load without any report for this long has failed", false},
    Knob{"models.loads_at_once", &Config::load_permits, 1, 1000, "loads",
         "loads in progress on all workers together; others wait", false},
    Knob{"models.dwell_ms", &Config::load_dwell_ms, 0, 86'400'000, "ms",
         "a model is not unloaded to make room for another before it was ready for so long", false},
    Knob{"models.drift_percent", &Config::load_drift_percent, 0, 1000, "percent",
         "a load that takes so much more or less than was reserved for it raises a warning", false},
    Knob{"models.replicas", &Config::placement_replicas, 0, 1000, "workers",
         "workers that a wanted model is loaded on; 0 = every worker with room", false},
    Knob{"models.memory_percent", &Config::placement_memory_percent, 1, 100, "percent",
         "share of a device's memory that loads may reserve", false},
    Knob{"workers.returned_hold_ms", &Config::returned_hold_ms, 0, 60'000, "ms",
         "a worker that hands work back gets no new work for this long", false},
    Knob{"blame.alone_after", &Config::blame_alone_after, 1, 100, "deaths",
         "deaths of workers after which a request runs alone", false},
    Knob{"blame.quarantine_after", &Config::blame_quarantine_after, 1, 100, "deaths",
         "deaths of workers after which a request is quarantined", false},
    Knob{"breaker.failures", &Config::breaker_failures, 1, 1000, "failures",
         "failures in a row after which a worker, or a model, gets no work for a while", false},
    Knob{"breaker.pause_ms", &Config::breaker_pause_ms, 0, 3'600'000, "ms",
         "how long that is at first; doubled by each further failure", false},
    Knob{"breaker.pause_max_ms", &Config::breaker_pause_max_ms, 0, 86'400'000, "ms",
         "how long it is at most", false},
    Knob{"link.group_messages", &Config::group_messages_max, 1, 65'536, "messages",
         "most messages of each socket in one transaction", false},
    Knob{"link.worker_heartbeat_ms", &Config::worker_heartbeat_ms, 0, 60'000, "ms",
         "ZMTP heartbeat to workers; 0 = off", true},
    Knob{"link.worker_timeout_ms", &Config::worker_timeout_ms, 10, 600'000, "ms",
         "a worker that is silent for this long is lost", true},
    Knob{"link.client_heartbeat_ms", &Config::client_heartbeat_ms, 0, 60'000, "ms",
         "ZMTP heartbeat to clients, operators and helpers; 0 = off", true},
    Knob{"link.client_timeout_ms", &Config::client_timeout_ms, 10, 600'000, "ms",
         "a client that is silent for this long is gone", true},
    Knob{"link.high_water", &Config::link_high_water, 16, 1'000'000, "messages",
         "messages that wait in a socket for each peer", true},
    Knob{"link.client_message_bytes", &Config::client_message_bytes_max, 65'536, 1 << 30, "bytes",
         "largest message of a client or operator", true},
    Knob{"link.worker_message_bytes", &Config::worker_message_bytes_max, 65'536, 1 << 30, "bytes",
         "largest message of a worker", true},
    Knob{"link.ingress_message_bytes", &Config::ingress_message_bytes_max, 65'536, 1 << 30, "bytes",
         "largest message of a helper (a tokenizer is one message)", true},
    Knob{"link.outbox_messages", &Config::outbox_messages_max, 16, 10'000'000, "messages",
         "messages kept for a worker or helper whose socket is full, before it counts as lost",
         true},
    Knob{"storage.reserve_bytes", &Config::storage_reserve_bytes, 0, 1LL << 34, "bytes",
         "file that is given up when the disk is full, so that running work can end", true},
    Knob{"storage.min_free_bytes", &Config::storage_min_free_bytes, 0, kBig, "bytes",
         "free disk space below which new requests are refused", false},
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

constexpr std::string_view kTenant = "tenant.";
constexpr std::size_t kTenantBytes = 128;
constexpr std::array kTenantKnobs = {
    Knob{"weight", nullptr, 1, 1000, "", "share of the work beside that of the other tenants",
         false, &TenantConfig::weight},
    Knob{"max_requests", nullptr, 0, 10'000'000, "requests",
         "requests that have not ended; 0 = queue.max_tenant_requests", false,
         &TenantConfig::max_requests},
};

Result<void> set_value(Config& config, const NamedKnob& named, std::string_view text) {
  const Knob& knob = named.knob();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Error{Errc::kUsage, "config " + named.name() + ": \"" + std::string(text) +
                                   "\" is not a whole number" +
                                   (knob.unit.empty() ? "" : " of " + std::string(knob.unit))};
  }
  if (value < knob.min || value > knob.max) {
    return Error{Errc::kUsage, "config " + named.name() + ": " + std::to_string(value) +
                                   " is out of range; expected " + std::to_string(knob.min) +
                                   " to " + std::to_string(knob.max) + " " +
                                   std::string(knob.unit)};
  }
  named.set(config, value);
  return {};
}

std::string known_near(std::string_view name) {
  if (name.starts_with(kTenant)) return "tenant.NAME.weight, tenant.NAME.max_requests";
  std::string near;
  for (const Knob& knob : kKnobs) {
    if (knob.name.substr(0, knob.name.find('.')) != name.substr(0, name.find('.'))) continue;
    near += (near.empty() ? "" : ", ") + std::string(knob.name);
  }
  return near;
}

}  // namespace

TenantConfig Config::tenant(const std::string& name) const {
  const auto it = tenants.find(name);
  return it == tenants.end() ? TenantConfig() : it->second;
}

std::span<const Knob> knobs() {
  return kKnobs;
}

std::span<const Knob> tenant_knobs() {
  return kTenantKnobs;
}

std::string NamedKnob::name() const {
  if (knob_->tenant_field == nullptr) return std::string(knob_->name);
  return std::string(kTenant) + tenant_ + "." + std::string(knob_->name);
}

std::int64_t NamedKnob::get(const Config& config) const {
  if (knob_->tenant_field == nullptr) return config.*knob_->field;
  return config.tenant(tenant_).*knob_->tenant_field;
}

void NamedKnob::set(Config& config, std::int64_t value) const {
  if (knob_->tenant_field == nullptr) {
    config.*knob_->field = value;
  } else {
    config.tenants[tenant_].*knob_->tenant_field = value;
  }
}

std::optional<NamedKnob> find_knob(std::string_view name) {
  for (const Knob& knob : kKnobs) {
    if (knob.name == name) return NamedKnob(knob, {});
  }
  if (!name.starts_with(kTenant)) return std::nullopt;
  const std::size_t dot = name.rfind('.');  // a tenant's name may have dots
  if (dot <= kTenant.size() || dot - kTenant.size() > kTenantBytes) return std::nullopt;
  for (const Knob& knob : kTenantKnobs) {
    if (knob.name != name.substr(dot + 1)) continue;
    return NamedKnob(knob, std::string(name.substr(kTenant.size(), dot - kTenant.size())));
  }
  return std::nullopt;
}

Result<void> set_knob(Config& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return Error{Errc::kUsage, "config \"" + std::string(assignment) + "\": expected name=value"};
  }
  const std::string_view name = assignment.substr(0, equals);
  const std::string_view text = assignment.substr(equals + 1);
  if (const auto knob = find_knob(name)) return set_value(config, *knob, text);
  const std::string near = known_near(name);
  return Error{Errc::kUsage, "config: unknown key \"" + std::string(name) + "\"" +
                                 (near.empty() ? "; see config list" : "; known here: " + near)};
}

}  // namespace holdfast::core
