#pragma once
// Canaries: a share of an alias for another model, and what its windows say.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "control/core/aliases.h"
#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/models.h"
#include "control/core/requests.h"
#include "control/core/transitions.h"

namespace holdfast::core {

class Aliases;
class Lifecycle;
class Loads;
class Registry;

/// The canaries of aliases: windows, verdicts, rollbacks; and the counters of both sides.
class Canaries {
 public:
  Canaries(Core& core, Aliases& aliases, Registry& registry, Loads& loads, Lifecycle& lifecycle)
      : core_(core), aliases_(aliases), registry_(registry), loads_(loads), lifecycle_(lifecycle) {}

  /// Takes in the canaries of the database; the aliases are there already.
  void boot(const Boot& event);
  void on(const OpCanary& event);
  /// Starts a canary whose model is ready, ends one that fails, samples and ends its window.
  void look_at_canary(Alias& alias);
  /// Rolls back the canaries of a model whose load failed, unless another load of the model works.
  void canary_load_failed(const Model& model, const std::string& reason);
  /// Reroutes a request whose canary was rolled back while it was still to be read from the
  /// database.
  void reroute_late(Request& request);
  /// Counts a refusal for its side of its alias.
  void count_refused(const Route& route);
  /// Counts an accepted request for its side of its alias.
  void count_accepted(const Request& request);
  /// Counts `count` tokens of this choice that are committed now; the ones before came at
  /// `last_token_us`.
  void count_for_alias(const Request& request, const Choice& choice, std::int64_t count);
  /// Counts the end of a request for its side of its alias.
  void count_end(const Request& request, RequestChange what);
  /// Counts a quarantined request as a failure of its side of its alias.
  void count_quarantined(const Request& request);
  /// Counts a request whose worker died under it for its side of its alias.
  void count_interrupted(const Request& request);

 private:
  std::optional<wire::Refusal> refuse_canary(const OpCanary& event) const;
  void begin_canary(Alias& alias, const OpCanary& event, const CanarySettings& settings);
  void begin_window(Alias& alias);
  void sample_queues(Canary& canary, const Alias& alias);
  SideEvidence evidence_of(const Canary& canary, Side side) const;
  void end_window(Alias& alias);
  void write_window(Alias& alias, CanaryDecision decision, const std::string& reason);
  void end_canary(Alias& alias, CanaryState state, const std::string& who,
                  const std::string& reason);
  void roll_back(Alias& alias, const std::string& who, const std::string& reason);
  void promote(Alias& alias, const std::string& who, const std::string& reason);
  const Model* target_for(const Request& request) const;
  bool reroute(Request& request);
  SideStats* side_stats(const Request& request, Canary** canary = nullptr);
  void count_outcome(SideStats& stats, bool failed);

  Core& core_;
  Aliases& aliases_;
  Registry& registry_;
  Loads& loads_;
  Lifecycle& lifecycle_;

  std::map<std::int64_t, CanaryRow> rolled_back_;  // whose requests may still be unread, by run
  std::int64_t last_canary_ = 0;
};

}  // namespace holdfast::core
