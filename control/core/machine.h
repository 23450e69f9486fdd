#pragma once
// The control plane as one deterministic state machine: step(event, now) -> effects. No clock,
// socket, thread, SQL or random device. The shell does everything that a step asks for in this
// order: all row changes of the ready events in one transaction, then the messages. Used from one
// thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "control/core/components.h"

namespace holdfast::core {

/// Router of events to the components that hold the state. They share Core and call each other.
class Machine {
 public:
  /// `base`: values of the knobs that nobody has set.
  explicit Machine(const Config& base) : components_(std::make_unique<Components>(base)) {}

  /// Applies one event. The first one must be Boot.
  Effects step(const Event& event, Now now);
  /// Applies one event; its effects are appended to what earlier events of the group asked for.
  void step(const Event& event, Now now, Effects& out);
  /// To be called after the commit of everything that was stepped so far: memory may then forget
  /// what the database has.
  void committed() {
    components_->lifecycle.requests().trim(components_->core.config.requests_ended_in_memory);
  }
  /// Monotonic time of the next Timer event that is needed; nullopt: none is.
  std::optional<std::int64_t> next_deadline_us() const {
    return components_->core.timers.next_us();
  }

  // ---- what the shell asks before it steps
  bool knows_id(const std::string& id) {
    return components_->lifecycle.requests().by_id(id) != nullptr || components_->jobs.knows_id(id);
  }
  bool knows_key(const std::string& tenant, const std::string& key) {
    return components_->lifecycle.requests().by_key(tenant, key) != nullptr ||
           components_->jobs.knows_key(tenant, key);
  }
  Request* request(const std::string& id) { return components_->lifecycle.requests().by_id(id); }

  // ---- views for status, metrics and operator verbs
  const Core& core() const { return components_->core; }
  const Config& config() const { return components_->core.config; }
  const ConfigHistory& config_history() const { return components_->config_history; }
  const Lifecycle& lifecycle() const { return components_->lifecycle; }
  const Registry& registry() const { return components_->registry; }
  const IdleUnloads& idle_unloads() const { return components_->idle_unloads; }
  const Loads& loads() const { return components_->loads; }
  const Placement& placement() const { return components_->placement; }
  const MemoryPools& memory() const { return components_->memory; }
  const Fleet& fleet() const { return components_->fleet; }
  const Nodes& nodes() const { return components_->nodes; }
  const Breakers& breakers() const { return components_->breakers; }
  const Aliases& aliases() const { return components_->aliases; }
  const IngressJobs& jobs() const { return components_->jobs; }
  const ClientStreams& streams() const { return components_->streams; }

 private:
  void look_at_usage();
  void run_placement();
  void route(const Event& event);
  void boot(const Boot& event);
  void from_worker(const FromWorker& event);
  void peer_gone(PeerId peer);
  void timer_due(const TimerEntry& entry);
  void storage_level(const StorageLevel& event);
  void standby_level(const StandbyLevel& event);
  void shutdown(const Shutdown& event);
  void check_drained();

  std::unique_ptr<Components> components_;
  std::int64_t drain_until_us_ = 0;
};

}  // namespace holdfast::core
