#pragma once
// Every knob of the daemon, in one table: name, default, range, unit, meaning.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "shared/base/result.h"

namespace holdfast::core {

/// Settings of one tenant, model or worker. kUnset: what is set for all of them (the name "*"),
/// else for the whole daemon, else no bound. 0 is "no bound".
struct SubjectConfig {
  static constexpr std::int64_t kUnset = -1;
  std::int64_t weight = kUnset;
  std::int64_t max_requests = kUnset;
  std::int64_t max_waiting = kUnset;
  std::int64_t max_running = kUnset;
  std::int64_t max_pages = kUnset;
  std::int64_t max_prompt_tokens = kUnset;
  std::int64_t max_output_tokens = kUnset;
  std::int64_t max_bytes = kUnset;
  std::int64_t replicas = kUnset;
  std::int64_t dwell_ms = kUnset;
  std::int64_t idle_unload_s = kUnset;
  std::int64_t max_objects = kUnset;
  std::int64_t max_object_bytes = kUnset;
  std::int64_t max_responses = kUnset;
  std::int64_t max_open_batches = kUnset;
  std::string share_prefixes;  // group that shares the pages of its prompts; empty: not set
};
using Subjects = std::map<std::string, SubjectConfig, std::less<>>;

/// Every value that an operator may set, at its default. knob_table.cpp has names, bounds and help.
struct Config {
  std::int64_t queue_max_requests = 100'000;
  std::int64_t queue_max_tenant_requests = 50'000;
  std::int64_t queue_max_bytes = 1LL << 30;
  std::int64_t queue_max_waiting = 0;
  std::int64_t queue_max_running = 0;
  std::int64_t queue_max_pages = 0;
  std::int64_t queue_preempt = 1;
  std::int64_t queue_max_preparing = 4096;
  std::int64_t queue_read_requests = 512;
  std::int64_t request_max_prompts = 2048;
  std::int64_t request_max_choices = 2048;
  std::int64_t request_max_meta_bytes = 1 << 20;
  std::int64_t request_max_prompt_tokens = 0;
  std::int64_t request_max_output_tokens = 0;
  std::int64_t request_max_bytes = 0;
  std::int64_t request_max_score_bytes = 4 << 20;
  std::int64_t requests_ended_in_memory = 1024;
  std::int64_t workers_adoption_window_ms = 1500;
  std::int64_t workers_reconnect_ms = 3000;
  std::int64_t requests_disconnect_grace_ms = 30'000;
  std::int64_t requests_class_wait_ms = 60'000;
  std::int64_t streams_chunk_tokens = 512;
  std::int64_t streams_max_window = 65'536;
  std::int64_t streams_retry_ms = 20;
  std::int64_t ingress_timeout_ms = 10'000;
  std::int64_t ingress_inspect_timeout_ms = 600'000;
  std::int64_t ingress_tries = 3;
  std::int64_t models_load_tries = 5;
  std::int64_t models_load_backoff_ms = 500;
  std::int64_t models_load_backoff_max_ms = 30'000;
  std::int64_t models_load_timeout_ms = 600'000;
  std::int64_t models_loads_at_once = 2;
  std::int64_t models_dwell_ms = 5000;
  std::int64_t models_idle_unload_s = 0;
  std::int64_t models_client_keep_alive = 1;
  std::int64_t models_drift_percent = 3;
  std::string model_roots;
  std::int64_t models_replicas = 0;
  std::int64_t models_fleet_wait_ms = 2000;
  std::int64_t models_memory_percent = 90;
  std::int64_t memory_min_available_percent = 5;
  std::int64_t memory_max_stall_percent = 10;
  std::int64_t memory_evict_pause_ms = 2000;
  std::int64_t workers_gone_hold_ms = 35'000;
  std::int64_t workers_returned_hold_ms = 50;
  std::int64_t blame_alone_after = 2;
  std::int64_t blame_quarantine_after = 5;
  std::int64_t aliases_ready_timeout_ms = 600'000;
  std::int64_t canary_window_ms = 60'000;
  std::int64_t canary_min_requests = 20;
  std::int64_t canary_clear_errors = 5;
  std::int64_t canary_max_error_percent = 2;
  std::int64_t canary_max_refusal_percent = 2;
  std::int64_t canary_max_queue_percent = 400;
  std::int64_t canary_max_ttft_percent = 150;
  std::int64_t canary_ttft_slack_ms = 50;
  std::int64_t canary_max_itl_percent = 150;
  std::int64_t canary_itl_slack_ms = 10;
  std::int64_t breaker_failures = 5;
  std::int64_t breaker_pause_ms = 5000;
  std::int64_t breaker_pause_max_ms = 30'000;
  std::int64_t nodes_fetch = 1;
  std::int64_t nodes_fetch_bytes_s = 0;
  std::int64_t link_group_messages = 256;
  std::int64_t link_worker_heartbeat_ms = 100;
  std::int64_t link_worker_timeout_ms = 300;
  std::int64_t link_worker_lost_ms = 1000;
  std::int64_t link_worker_stopped_ms = 50;
  std::int64_t link_node_timeout_ms = 65;
  std::int64_t link_node_lost_ms = 90;
  std::int64_t link_client_heartbeat_ms = 500;
  std::int64_t link_client_timeout_ms = 2000;
  std::int64_t link_high_water = 4096;
  std::int64_t link_client_message_bytes = 4 << 20;
  std::int64_t link_worker_message_bytes = 64 << 20;
  std::int64_t link_ingress_message_bytes = 256 << 20;
  std::int64_t link_outbox_messages = 65'536;
  std::int64_t storage_reserve_bytes = 16 << 20;
  std::int64_t storage_min_free_bytes = 64 << 20;
  std::int64_t objects_max_count = 1'000'000;
  std::int64_t objects_max_bytes = 8LL << 30;
  std::int64_t objects_max_tenant_percent = 50;
  std::int64_t objects_reserve_bytes = 16 << 20;
  std::int64_t storage_refuse_lost_log = 0;
  std::int64_t ha_strict = 0;
  std::int64_t ha_synced = 0;
  std::int64_t ha_silence_ms = 500;
  std::int64_t drain_limit_ms = 10'000;
  std::int64_t retention_hours = 168;
  std::int64_t retention_key_hours = 24;
  std::int64_t retention_max_bytes = 8LL << 30;
  Subjects tenants, models, workers;  // only those with a setting

  // Settings in effect: no field is kUnset.
  SubjectConfig tenant(std::string_view name) const;
  SubjectConfig model(std::string_view name) const;
  SubjectConfig worker(std::string_view key) const;
  /// The sharing group of a tenant: tenants of one group find each other's prompts in prefix
  /// caches. "tenant NAME", or "group NAME" where tenant.NAME.share_prefixes says so, which no
  /// tenant's name can be mistaken for.
  std::string prefix_group(std::string_view tenant) const;
};

/// Value of a knob: a number or, for the few that are no amount, a text.
using KnobValue = std::variant<std::int64_t, std::string>;
std::string to_text(const KnobValue& value);

/// One row of the knob table: one of `field`, `text`, `subject_field`, `subject_text` is set.
struct Knob {
  std::string_view name;  // of a subject's knob: the part after the subject's name
  std::int64_t Config::*field = nullptr;
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::string_view unit = {};
  std::string_view doc = {};
  bool restart = false;  // a change needs a restart of the daemon
  std::int64_t SubjectConfig::*subject_field = nullptr;
  std::string Config::*text = nullptr;  // a text: no range, `good` says what is wrong with it
  Result<void> (*good)(std::string_view value) = nullptr;
  std::string SubjectConfig::*subject_text = nullptr;  // of a subject, like `text`
  bool local = false;  // restricts operators from the network, so they cannot change it
};

/// Returns the knobs of the daemon, sorted by name.
std::span<const Knob> knobs();

/// A kind of subject with knobs of its own: PREFIX.NAME.KNOB, or PREFIX.*.KNOB for all of the kind.
struct SubjectKind {
  std::string_view prefix;
  Subjects Config::*map;
  SubjectConfig (Config::*effective)(std::string_view name) const;
  std::span<const Knob> knobs;
};

/// Returns the kinds of subjects: tenants, models, API keys.
std::span<const SubjectKind> subject_kinds();

/// A knob by its name in files, documents and commands.
class NamedKnob {
 public:
  explicit NamedKnob(const Knob& knob) : knob_(&knob) {}
  NamedKnob(const Knob& knob, const SubjectKind& kind, std::string subject)
      : knob_(&knob), kind_(&kind), subject_(std::move(subject)) {}
  std::string name() const;
  const Knob& knob() const { return *knob_; }
  bool of_subject() const { return kind_ != nullptr; }
  bool is_text() const { return knob_->text != nullptr || knob_->subject_text != nullptr; }
  KnobValue value(const Config& config) const;
  /// Returns the value of a knob that holds a number.
  std::int64_t get(const Config& config) const;
  void set(Config& config, std::int64_t value) const;
  /// Sets any value, given as text. kUsage: not a number, out of range, or what `good` says.
  Result<void> set_text(Config& config, std::string_view text) const;
  /// Sets a value that was good when it was stored, perhaps by another release: a number is clamped
  /// into this release's range; a value that cannot be used is left out.
  void restore(Config& config, const KnobValue& value) const;

 private:
  const Knob* knob_;
  const SubjectKind* kind_ = nullptr;
  std::string subject_;
};

/// Returns the knob of that name; nullopt if there is none.
std::optional<NamedKnob> find_knob(std::string_view name);

/// Applies "name=value". kUsage: unknown name (similar names are listed), not a number, out of
/// range.
Result<void> set_knob(Config& config, std::string_view assignment);

}  // namespace holdfast::core
