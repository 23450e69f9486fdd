// Changes of the configuration: a new version, written before it is answered, effective at once
// where a knob can be changed in a running daemon.
#include "control/core/config_history.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/core/admission.h"

namespace holdfast::core {

/// Puts a version into effect. Knobs that need a restart keep the value that this process started
/// with.
void ConfigHistory::use_config(const ConfigVersion& version, bool at_start) {
  std::vector<std::string> unknown;
  const Config effective = effective_config(base_, version, &unknown);
  const Config before = core_.config;
  core_.config = effective;
  core_.config_version = version.version;
  for (const Knob& knob : knobs()) {
    if (!knob.restart || at_start) continue;
    if (knob.text != nullptr) {
      core_.config.*knob.text = before.*knob.text;
    } else {
      core_.config.*knob.field = before.*knob.field;
    }
  }
  for (const std::string& name : unknown) {
    core_.out->note("a setting of a knob that this program does not have is without effect",
                    {{"name", name}}, true);
  }
  core_.want_dispatch = core_.want_placement = true;
}

void ConfigHistory::add_config_version(ConfigVersion version, bool at_start) {
  use_config(version, at_start);
  core_.out->note("configuration changed", {{"version", std::to_string(version.version)},
                                            {"source", version.source},
                                            {"who", version.who},
                                            {"change", version.change}});
  core_.out->write(InsertConfigVersion{version}, Durability::kFull);
  config_versions_.push_back(std::move(version));
  if (config_versions_.size() > kConfigVersionsMax)
    config_versions_.erase(config_versions_.begin());
}

const ConfigVersion& ConfigHistory::config_version() const {
  static const ConfigVersion defaults;
  return config_versions_.empty() ? defaults : config_versions_.back();
}

void ConfigHistory::import_config(const ConfigImport& import) {
  auto next = imported_version(config_version(), base_, import.content,
                               {import.source, import.who, core_.now.wall_ms});
  CHECK_MSG(next.has_value(), "the shell checks what it imports");
  if (next->has_value()) add_config_version(std::move(**next), true);
}

/// Refuses a version from the network that changes knobs which can be changed on the machine itself
/// alone.
std::optional<wire::Refusal> ConfigHistory::refuse_local(const ConfigVersion& next) const {
  const Config now = effective_config(base_, config_version());
  const Config then = effective_config(base_, next);
  for (const Knob& knob : knobs()) {
    if (!knob.local || NamedKnob(knob).value(now) == NamedKnob(knob).value(then)) continue;
    const std::string name(knob.name);
    return refuse(Errc::kUnauthorized, name +
                                           " is not changed over the network: use `holdfast config "
                                           "set " +
                                           name + "=…` on the machine, or the configuration file");
  }
  return std::nullopt;
}

void ConfigHistory::on(const OpConfig& event) {
  const ChangeOrigin origin{"operator", event.who, core_.now.wall_ms};
  ConfigVersion next;
  if (event.rollback_to.has_value()) {
    const auto target =
        std::find_if(config_versions_.begin(), config_versions_.end(),
                     [&](const ConfigVersion& v) { return v.version == *event.rollback_to; });
    if (target == config_versions_.end() && *event.rollback_to != 0) {
      core_.op_refused(
          event.peer, event.tag,
          refuse(Errc::kNotFound, "config: no version " + std::to_string(*event.rollback_to) +
                                      " is kept; see config history"));
      return;
    }
    const ConfigVersion to = target == config_versions_.end() ? ConfigVersion() : *target;
    next = rolled_back_version(config_version(), base_, to, origin);
  } else {
    auto changed = changed_version(config_version(), base_, event.changes, origin);
    if (!changed) {
      core_.op_refused(event.peer, event.tag, refuse(Errc::kInvalidRequest, changed.error().what));
      return;
    }
    next = std::move(changed).value();
  }
  if (event.from_network) {
    if (auto refusal = refuse_local(next)) {
      return core_.op_refused(event.peer, event.tag, std::move(*refusal));
    }
  }
  add_config_version(std::move(next), false);
  core_.op_done(event.peer, event.tag, event.verb, {});
}

void ConfigHistory::boot(const Boot& event) {
  config_versions_ = event.config_versions;
  use_config(config_version(), true);
  for (const ConfigImport& import : event.imports) import_config(import);
}

}  // namespace holdfast::core
