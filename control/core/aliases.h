#pragma once
// Aliases and their canaries in memory.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/core/alias.h"
#include "control/core/canary.h"
#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/models.h"

namespace holdfast::core {

class Canaries;
class Lifecycle;
class Registry;

/// The side of its alias that a request belongs to.
enum class Side : std::uint8_t { kStable, kCanary };
inline std::size_t index(Side side) {
  return static_cast<std::size_t>(side);
}

/// Counters of requests since the start, by alias and side; names are those of the metrics.
struct SideCounters {
  std::uint64_t accepted = 0, refused = 0, succeeded = 0, failed = 0, cancelled = 0, expired = 0,
                rerouted = 0;
};

/// A canary that has not ended.
struct Canary {
  CanaryRow row;
  std::array<SideStats, 2> stats;                       // of the window, by Side
  std::array<std::map<Seq, std::int64_t>, 2> awaiting;  // without a token: since when, monotonic us
  std::int64_t window_started_ms = 0;                   // wall
  std::int64_t window_ends_us = 0;                      // monotonic
  std::int64_t sample_us = 0;                           // next sample of the queues, monotonic us
};

/// An alias as the daemon has it in memory, and its canary while one runs.
struct Alias {
  AliasRow row;
  std::optional<Canary> canary;
  std::int64_t waits_until_us = 0;  // deadline of `pending` or of a canary that loads
  std::array<SideCounters, 2> counters;
};

/// The model that a request goes to, by its own name or by an alias.
struct Route {
  std::string model;
  std::string alias;        // empty: none was asked for
  std::uint64_t key = 0;    // route_key()
  std::int64_t canary = 0;  // run of a canary; 0 = none
  Side side() const { return canary == 0 ? Side::kStable : Side::kCanary; }
};

/// Names that stand for models: where a request goes, and changes of the targets.
class Aliases {
 public:
  Aliases(Core& core, Registry& registry, Lifecycle& lifecycle, Canaries& canaries)
      : core_(core), registry_(registry), lifecycle_(lifecycle), canaries_(canaries) {}

  /// Takes in the aliases of the database.
  void boot(const Boot& event);
  void on(const OpAlias& event);
  /// Chooses the route of a request, once and before it is prepared: each model has its own
  /// tokenizer.
  Route route_of(const wire::Submit& submit) const;
  /// Returns false if the canary that the request was given to has ended while it was prepared, or
  /// its model is gone.
  bool route_holds(const Route& route) const;
  /// Returns the aliases as models that clients may name.
  std::vector<wire::ModelInfo> alias_infos() const;
  /// Returns an alias that this model is part of; empty if there is none.
  std::string alias_with(const std::string& model) const;
  /// Returns true if `model` may go for `wanting`. While a model loads to become a target, what it
  /// is going to replace or to be compared with stays: it serves meanwhile, and for good if the
  /// load fails. It goes all the same if requests wait for the model.
  bool makes_way_for(const std::string& model, const std::string& wanting) const;
  /// Returns why these targets are not possible; nullopt if they are.
  std::optional<wire::Refusal> refuse_targets(const AliasTargets& targets, bool when_ready) const;
  /// Replaces the targets. Accepted requests stay with their model, which serves them to the end;
  /// new requests go to the new targets from here on.
  void set_targets(Alias& alias, AliasTargets targets, const std::string& who,
                   const std::string& action, const std::string& reason);
  /// Writes a line of the alias's history.
  void write_history(const Alias& alias, const std::string& who, const std::string& action,
                     const AliasTargets& to, const std::string& reason);
  /// Looks at pending targets and canaries: models became ready or failed, or a time is over.
  void look_at_aliases();

  /// Aliases by name.
  std::map<std::string, Alias>& all() { return aliases_; }
  const std::map<std::string, Alias>& all() const { return aliases_; }

 private:
  std::optional<wire::Refusal> refuse_alias(const OpAlias& event) const;
  void remove_alias(const OpAlias& event);
  void look_at_pending(Alias& alias);
  void abandon(Alias& alias, const std::string& reason);

  Core& core_;
  Registry& registry_;
  Lifecycle& lifecycle_;
  Canaries& canaries_;

  std::map<std::string, Alias> aliases_;  // by name
};

}  // namespace holdfast::core
