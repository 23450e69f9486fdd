// Aliases: which model a request gets, changes of targets at once or when their models are ready.
#include "control/core/aliases.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/core/admission.h"
#include "control/core/canaries.h"
#include "control/core/lifecycle.h"
#include "control/core/registry.h"

namespace holdfast::core {
namespace {

constexpr std::size_t kNameBytes = 128;

bool has(const AliasTargets& targets, const std::string& model) {
  return std::any_of(targets.begin(), targets.end(),
                     [&](const AliasTarget& target) { return target.model == model; });
}

}  // namespace

// ---- where a request goes

Route Aliases::route_of(const wire::Submit& submit) const {
  Route route;
  route.model = submit.model;
  const auto it = aliases_.find(submit.model);
  if (it == aliases_.end()) return route;
  const Alias& alias = it->second;
  const std::string& default_key = submit.idem_key.empty() ? submit.request_id : submit.idem_key;
  route.alias = submit.model;
  route.key = route_key(submit.sticky.empty() ? default_key : submit.sticky);
  const CanaryRow* canary = alias.canary ? &alias.canary->row : nullptr;
  if (canary != nullptr && canary->state == CanaryState::kRunning &&
      falls_to_canary(alias.row.id, canary->model, route.key, canary->settings.percent)) {
    route.model = canary->model;
    route.canary = canary->id;
    return route;
  }
  const AliasTarget* target = choose_target(alias.row, route.key, [&](const std::string& name) {
    const auto model = registry_.models().find(name);
    return model != registry_.models().end() && model->second.row.state != ModelState::kFailed;
  });
  CHECK_MSG(target != nullptr, "an alias has targets");
  route.model = target->model;
  return route;
}

bool Aliases::route_holds(const Route& route) const {
  if (route.alias.empty()) return true;
  if (registry_.models().count(route.model) == 0) return false;
  if (route.canary == 0) return true;
  const auto alias = aliases_.find(route.alias);
  return alias != aliases_.end() && alias->second.canary &&
         alias->second.canary->row.id == route.canary;
}

std::vector<wire::ModelInfo> Aliases::alias_infos() const {
  std::vector<wire::ModelInfo> infos;
  for (const auto& [name, alias] : aliases_) {
    wire::ModelInfo info;
    info.name = name;
    info.alias_of = targets_text(alias.row.targets);
    info.created_ms = alias.row.created_ms;
    const auto model = registry_.models().find(alias.row.targets.front().model);
    if (model != registry_.models().end()) {
      const ModelRow& row = model->second.row;
      info.sha = row.sha;
      info.architecture = row.architecture;
      info.state = std::string(model_state_name(row.state));
      info.context = row.context;
      info.chat = row.chat;
      info.output = row.output;
      info.reason = row.reason;
      info.encoder = is_encoder(row);
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

// ---- changes

std::string Aliases::alias_with(const std::string& model) const {
  for (const auto& [name, alias] : aliases_) {
    const bool canary = alias.canary && alias.canary->row.model == model;
    if (canary || has(alias.row.targets, model) || has(alias.row.pending, model)) return name;
  }
  return {};
}

bool Aliases::makes_way_for(const std::string& model, const std::string& wanting) const {
  if (lifecycle_.waits(wanting)) return true;
  return std::none_of(aliases_.begin(), aliases_.end(), [&](const auto& item) {
    const Alias& alias = item.second;
    const bool loading = alias.canary && alias.canary->row.model == wanting;
    return (loading || has(alias.row.pending, wanting)) &&
           (has(alias.row.targets, model) || has(alias.row.pending, model));
  });
}

std::optional<wire::Refusal> Aliases::refuse_targets(const AliasTargets& targets,
                                                     bool when_ready) const {
  for (const AliasTarget& target : targets) {
    if (aliases_.count(target.model) > 0) {
      return refuse(Errc::kInvalidRequest, "models.alias: \"" + target.model +
                                               "\" is an alias itself; name the models that it "
                                               "stands for");
    }
    const auto model = registry_.models().find(target.model);
    if (model == registry_.models().end()) {
      return refuse(Errc::kModelNotFound,
                    "models.alias: model \"" + target.model + "\" is not registered");
    }
    if (model->second.row.state == ModelState::kFailed && !when_ready) {
      return refuse(Errc::kModelFailed, "models.alias: model \"" + target.model + "\" failed: " +
                                            model->second.row.reason + "; see models load");
    }
  }
  return std::nullopt;
}

std::optional<wire::Refusal> Aliases::refuse_alias(const OpAlias& event) const {
  const auto alias = aliases_.find(event.name);
  if (alias != aliases_.end() && alias->second.canary) {
    return refuse(Errc::kConflict, "models.alias: canary " + alias->second.canary->row.model +
                                       " of \"" + event.name +
                                       "\" has not ended; promote it or roll it back first");
  }
  if (event.targets.empty()) {
    if (alias != aliases_.end()) return std::nullopt;
    return refuse(Errc::kNotFound, "models.alias: there is no alias \"" + event.name + "\"");
  }
  if (event.name.empty() || event.name.size() > kNameBytes) {
    return refuse(Errc::kUsage, "models.alias: expected a name of at most 128 bytes");
  }
  if (registry_.models().count(event.name) > 0) {
    return refuse(Errc::kConflict, "models.alias: a model has the name \"" + event.name +
                                       "\"; an alias must have another");
  }
  return refuse_targets(event.targets, event.when_ready);
}

void Aliases::on(const OpAlias& event) {
  if (auto refusal = refuse_alias(event)) {
    core_.op_refused(event.peer, event.tag, std::move(*refusal));
    return;
  }
  if (event.targets.empty()) return remove_alias(event);
  const bool fresh = aliases_.count(event.name) == 0;
  Alias& alias = aliases_[event.name];
  if (fresh) {
    std::int64_t last = 0;
    for (const auto& [name, other] : aliases_) last = std::max(last, other.row.id);
    alias.row.name = event.name;
    alias.row.id = last + 1;
    alias.row.created_ms = core_.now.wall_ms;
  }
  if (!alias.row.pending.empty()) abandon(alias, "another change was asked for");
  if (event.when_ready) {
    for (const AliasTarget& target : event.targets) {
      registry_.load_again(registry_.models().at(target.model), "wanted by alias " + event.name);
    }
  }
  if (fresh || !event.when_ready) {
    set_targets(alias, event.targets, event.who, fresh ? "created" : "changed", {});
  } else {
    alias.row.pending = event.targets;
    alias.row.pending_who = event.who;
    alias.row.pending_ms = core_.now.wall_ms;
    alias.waits_until_us = core_.now.mono_us + core_.config.aliases_ready_timeout_ms * 1000;
    core_.timers.add_keyed(alias.waits_until_us, TimerKind::kAlias, event.name);
    write_history(alias, event.who, "waits", event.targets, "until the models are ready");
    core_.out->write(AliasChange{PutAlias{alias.row}}, Durability::kFull);
    core_.want_aliases = true;
  }
  core_.op_done(event.peer, event.tag, "models.alias", event.name);
}

void Aliases::remove_alias(const OpAlias& event) {
  const auto it = aliases_.find(event.name);
  write_history(it->second, event.who, "removed", {}, {});
  core_.out->write(AliasChange{DeleteAlias{event.name}}, Durability::kFull);
  aliases_.erase(it);
  core_.want_placement = true;
  core_.op_done(event.peer, event.tag, "models.alias_remove", event.name);
}

void Aliases::set_targets(Alias& alias, AliasTargets targets, const std::string& who,
                          const std::string& action, const std::string& reason) {
  write_history(alias, who, action, targets, reason);
  alias.row.targets = std::move(targets);
  alias.row.pending.clear();
  alias.row.pending_who.clear();
  alias.row.pending_ms = 0;
  alias.row.changed_ms = core_.now.wall_ms;
  core_.want_placement = true;  // what had to stay may make room again
  core_.out->write(AliasChange{PutAlias{alias.row}}, Durability::kFull);
  core_.out->note(
      "alias changed",
      {{"alias", alias.row.name}, {"targets", targets_text(alias.row.targets)}, {"by", who}});
}

void Aliases::write_history(const Alias& alias, const std::string& who, const std::string& action,
                            const AliasTargets& to, const std::string& reason) {
  core_.out->write(
      AliasChange{InsertAliasHistory{{alias.row.name, core_.now.wall_ms, who, action,
                                      targets_text(alias.row.targets), targets_text(to), reason}}},
      Durability::kFull);
}

// ---- what waits

void Aliases::look_at_aliases() {
  core_.want_aliases = false;
  for (auto& [name, alias] : aliases_) {
    if (!alias.row.pending.empty()) look_at_pending(alias);
    if (alias.canary) canaries_.look_at_canary(alias);
  }
}

void Aliases::look_at_pending(Alias& alias) {
  bool ready = true;
  for (const AliasTarget& target : alias.row.pending) {
    const auto model = registry_.models().find(target.model);
    CHECK_MSG(model != registry_.models().end(), "a model that an alias waits for is not removed");
    const ModelRow& row = model->second.row;
    if (row.state == ModelState::kFailed) {
      return abandon(alias, "model " + target.model + " failed: " + row.reason);
    }
    if (row.state == ModelState::kUnloaded && !row.load_requested) {
      return abandon(alias, "model " + target.model + " was unloaded: " + row.reason);
    }
    ready = ready && row.state == ModelState::kReady;
  }
  if (ready) {
    const AliasTargets targets = alias.row.pending;
    set_targets(alias, targets, std::string(alias.row.pending_who), "switched",
                "the models are ready");
  } else if (core_.now.mono_us >= alias.waits_until_us) {
    abandon(alias, "not ready within " + std::to_string(core_.config.aliases_ready_timeout_ms) +
                       " ms; see models show");
  }
}

/// Gives up the pending targets; the targets stay as they are.
void Aliases::abandon(Alias& alias, const std::string& reason) {
  write_history(alias, alias.row.pending_who, "abandoned", alias.row.pending, reason);
  core_.out->note(
      "a change of an alias is given up, the old targets stay",
      {{"alias", alias.row.name}, {"targets", targets_text(alias.row.pending)}, {"reason", reason}},
      true);
  alias.row.pending.clear();
  alias.row.pending_who.clear();
  alias.row.pending_ms = 0;
  core_.want_placement = true;
  core_.out->write(AliasChange{PutAlias{alias.row}}, Durability::kFull);
}

void Aliases::boot(const Boot& event) {
  for (const AliasRow& row : event.aliases) {
    Alias& alias = aliases_[row.name];
    alias.row = row;
    if (row.pending.empty()) continue;
    alias.waits_until_us = core_.now.mono_us + core_.config.aliases_ready_timeout_ms * 1000;
    core_.timers.add_keyed(alias.waits_until_us, TimerKind::kAlias, row.name);
  }
  core_.want_aliases = !aliases_.empty();
}

}  // namespace holdfast::core
