#pragma once
// Models that nobody uses: when each one is unloaded.

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "control/core/core.h"
#include "control/core/models.h"

namespace holdfast::core {

class Aliases;
class Lifecycle;
class Loads;
class Registry;

/// Unloads models that ran nothing for as long as the configuration (models.idle_unload_s) or a
/// client (keep_alive) says. A pinned model stays, and so do both sides of a canary. What was
/// ready for less than models.dwell_ms stays too, so that no client can have a model loaded over
/// and over.
class IdleUnloads {
 public:
  IdleUnloads(Core& core, Registry& registry, Loads& loads, Lifecycle& lifecycle, Aliases& aliases)
      : core_(core), registry_(registry), loads_(loads), lifecycle_(lifecycle), aliases_(aliases) {}

  /// Unloads what is due, and sets a timer for what will be.
  void run();
  /// Does the same for these models.
  void run(const std::set<std::string>& models);
  /// Returns when the model is unloaded if nobody asks for it any more, in wall-clock ms; nullopt:
  /// never, or it is not loaded. That of a busy model is counted from now.
  std::optional<std::int64_t> unloads_at_ms(const Model& model) const;

 private:
  void look_at(Model& model);
  /// Returns how long the model stays idle; nullopt: without end.
  std::optional<std::int64_t> idle_time_us(const Model& model) const;
  /// Returns when the model will have been idle for long enough, monotonic; nullopt: it is not
  /// idle.
  std::optional<std::int64_t> due_us(const Model& model, std::int64_t idle_time_us) const;
  bool is_compared(const Model& model) const;

  Core& core_;
  Registry& registry_;
  Loads& loads_;
  Lifecycle& lifecycle_;
  Aliases& aliases_;
};

}  // namespace holdfast::core
