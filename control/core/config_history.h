#pragma once
// Versions of the configuration: the one in effect and those before it.

#include <optional>
#include <string>
#include <vector>

#include "control/core/config.h"
#include "control/core/config_version.h"
#include "control/core/core.h"
#include "control/core/events.h"

namespace holdfast::core {

/// Versions of the configuration. The newest is what knobs are set to; it comes into effect in
/// Core::config, but for knobs that need a restart.
class ConfigHistory {
 public:
  /// `base`: values of the knobs that nobody has set.
  ConfigHistory(Core& core, const Config& base) : core_(core), base_(base) {}

  /// Takes the versions of the database, and what the shell imports from files and the command
  /// line.
  void boot(const Boot& event);
  void on(const OpConfig& event);
  /// Returns the newest version: what knobs are set to, in effect or waiting for a restart.
  const ConfigVersion& config_version() const;

  /// Values of the knobs that nobody has set.
  const Config& base() const { return base_; }
  const std::vector<ConfigVersion>& versions() const { return config_versions_; }

 private:
  void use_config(const ConfigVersion& version, bool at_start);
  void add_config_version(ConfigVersion version, bool at_start);
  void import_config(const ConfigImport& import);
  std::optional<wire::Refusal> refuse_local(const ConfigVersion& next) const;

  Core& core_;

  Config base_;
  std::vector<ConfigVersion> config_versions_;
};

}  // namespace holdfast::core
