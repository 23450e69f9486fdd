// Aliases: which model a request gets, changes of targets at once or when their models are ready.
#include <algorithm>

#include "control/core/machine.h"

namespace holdfast::core {
namespace {

constexpr std::size_t kNameBytes = 128;

bool has(const AliasTargets& targets, const std::string& model) {
  return std::any_of(targets.begin(), targets.end(),
                     [&](const AliasTarget& target) { return target.model == model; });
}

}  // namespace

// ---- where a request goes

/// Chooses the route of a request, once and before it is prepared: each model has its own
/// tokenizer.
Route Machine::route_of(const wire::Submit& submit) const {
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
    const auto model = models_.find(name);
    return model != models_.end() && model->second.row.state != ModelState::kFailed;
  });
  CHECK_MSG(target != nullptr, "an alias has targets");
  route.model = target->model;
  return route;
}

/// Returns false if the canary that the request was given to has ended while it was prepared, or
/// its model is gone.
bool Machine::route_holds(const Route& route) const {
  if (route.alias.empty()) return true;
  if (models_.count(route.model) == 0) return false;
  if (route.canary == 0) return true;
  const auto alias = aliases_.find(route.alias);
  return alias != aliases_.end() && alias->second.canary &&
         alias->second.canary->row.id == route.canary;
}

std::vector<wire::ModelInfo> Machine::alias_infos() const {
  std::vector<wire::ModelInfo> infos;
  for (const auto& [name, alias] : aliases_) {
    wire::ModelInfo info;
    info.name = name;
    info.alias_of = targets_text(alias.row.targets);
    info.created_ms = alias.row.created_ms;
    const auto model = models_.find(alias.row.targets.front().model);
    if (model != models_.end()) {
      const ModelRow& row = model->second.row;
      info.sha = row.sha;
      info.architecture = row.architecture;
      info.state = std::string(model_state_name(row.state));
      info.context = row.context;
      info.chat = row.chat;
      info.output = row.output;
      info.reason = row.reason;
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

// ---- changes

/// Returns an alias that this model is part of; empty if there is none.
std::string Machine::alias_with(const std::string& model) const {
  for (const auto& [name, alias] : aliases_) {
    const bool canary = alias.canary && alias.canary->row.model == model;
    if (canary || has(alias.row.targets, model) || has(alias.row.pending, model)) return name;
  }
  return {};
}

/// Returns true if `model` may go for `wanting`. While a model loads to become a target, what it is
/// going to replace or to be compared with stays: it serves meanwhile, and for good if the load
/// fails. It goes all the same if requests wait for the model.
bool Machine::makes_way_for(const std::string& model, const std::string& wanting) const {
  if (waits(wanting)) return true;
  return std::none_of(aliases_.begin(), aliases_.end(), [&](const auto& item) {
    const Alias& alias = item.second;
    const bool loading = alias.canary && alias.canary->row.model == wanting;
    return (loading || has(alias.row.pending, wanting)) &&
           (has(alias.row.targets, model) || has(alias.row.pending, model));
  });
}

std::optional<wire::Refusal> Machine::refuse_targets(const AliasTargets& targets,
                                                     bool when_ready) const {
  for (const AliasTarget& target : targets) {
    if (aliases_.count(target.model) > 0) {
      return refuse(Errc::kInvalidRequest, "models.alias: \"" + target.model +
                                               "\" is an alias itself; name the models that it "
                                               "stands for");
    }
    const auto model = models_.find(target.model);
    if (model == models_.end()) {
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

std::optional<wire::Refusal> Machine::refuse_alias(const OpAlias& event) const {
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
  if (models_.count(event.name) > 0) {
    return refuse(Errc::kConflict, "models.alias: a model has the name \"" + event.name +
                                       "\"; an alias must have another");
  }
  return refuse_targets(event.targets, event.when_ready);
}

void Machine::on(const OpAlias& event) {
  if (auto refusal = refuse_alias(event)) {
    op_refused(event.peer, event.tag, std::move(*refusal));
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
    alias.row.created_ms = now_.wall_ms;
  }
  if (!alias.row.pending.empty()) abandon(alias, "another change was asked for");
  if (event.when_ready) {
    for (const AliasTarget& target : event.targets) {
      load_again(models_.at(target.model), "wanted by alias " + event.name);
    }
  }
  if (fresh || !event.when_ready) {
    set_targets(alias, event.targets, event.who, fresh ? "created" : "changed", {});
  } else {
    alias.row.pending = event.targets;
    alias.row.pending_who = event.who;
    alias.row.pending_ms = now_.wall_ms;
    alias.waits_until_us = now_.mono_us + config_.aliases_ready_timeout_ms * 1000;
    timers_.add_keyed(alias.waits_until_us, TimerKind::kAlias, event.name);
    write_history(alias, event.who, "waits", event.targets, "until the models are ready");
    out_->write(AliasChange{PutAlias{alias.row}}, Durability::kFull);
    want_aliases_ = true;
  }
  op_done(event.peer, event.tag, "models.alias", event.name);
}

void Machine::remove_alias(const OpAlias& event) {
  const auto it = aliases_.find(event.name);
  write_history(it->second, event.who, "removed", {}, {});
  out_->write(AliasChange{DeleteAlias{event.name}}, Durability::kFull);
  aliases_.erase(it);
  want_placement_ = true;
  op_done(event.peer, event.tag, "models.alias_remove", event.name);
}

/// Replaces the targets. Accepted requests stay with their model, which serves them to the end; new
/// requests go to the new targets from here on.
void Machine::set_targets(Alias& alias, AliasTargets targets, const std::string& who,
                          const std::string& action, const std::string& reason) {
  write_history(alias, who, action, targets, reason);
  alias.row.targets = std::move(targets);
  alias.row.pending.clear();
  alias.row.pending_who.clear();
  alias.row.pending_ms = 0;
  alias.row.changed_ms = now_.wall_ms;
  want_placement_ = true;  // what had to stay may make room again
  out_->write(AliasChange{PutAlias{alias.row}}, Durability::kFull);
  out_->note(
      "alias changed",
      {{"alias", alias.row.name}, {"targets", targets_text(alias.row.targets)}, {"by", who}});
}

void Machine::write_history(const Alias& alias, const std::string& who, const std::string& action,
                            const AliasTargets& to, const std::string& reason) {
  out_->write(
      AliasChange{InsertAliasHistory{{alias.row.name, now_.wall_ms, who, action,
                                      targets_text(alias.row.targets), targets_text(to), reason}}},
      Durability::kFull);
}

/// Asks for a load as `models load` does: the model may have failed before.
void Machine::load_again(Model& model, const std::string& reason) {
  count_failures(model, 0);
  model.failed_on.clear();
  model.retry_at_us = 0;
  model.row.load_requested = true;
  const ModelState state = model.row.state;
  if (state == ModelState::kUnloaded || state == ModelState::kFailed ||
      state == ModelState::kRegistered) {
    set_model_state(model, ModelState::kPlacing, reason);
  }
  put_model(model);
  want_placement_ = true;
}

// ---- what waits

void Machine::boot_aliases(const Boot& event) {
  for (const AliasRow& row : event.aliases) {
    Alias& alias = aliases_[row.name];
    alias.row = row;
    if (row.pending.empty()) continue;
    alias.waits_until_us = now_.mono_us + config_.aliases_ready_timeout_ms * 1000;
    timers_.add_keyed(alias.waits_until_us, TimerKind::kAlias, row.name);
  }
  for (const CanaryRow& row : event.canaries) {
    last_canary_ = std::max(last_canary_, row.id);
    if (row.state == CanaryState::kRolledBack) rolled_back_[row.id] = row;
    const auto alias = aliases_.find(row.alias);
    const bool open = row.state == CanaryState::kLoading || row.state == CanaryState::kRunning;
    if (!open || alias == aliases_.end()) continue;
    alias->second.canary.emplace();
    alias->second.canary->row = row;
    begin_window(alias->second);  // a window that the last process left open begins again
  }
  want_aliases_ = !aliases_.empty();
}

void Machine::look_at_aliases() {
  want_aliases_ = false;
  for (auto& [name, alias] : aliases_) {
    if (!alias.row.pending.empty()) look_at_pending(alias);
    if (alias.canary) look_at_canary(alias);
  }
}

void Machine::look_at_pending(Alias& alias) {
  bool ready = true;
  for (const AliasTarget& target : alias.row.pending) {
    const auto model = models_.find(target.model);
    CHECK_MSG(model != models_.end(), "a model that an alias waits for is not removed");
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
  } else if (now_.mono_us >= alias.waits_until_us) {
    abandon(alias, "not ready within " + std::to_string(config_.aliases_ready_timeout_ms) +
                       " ms; see models show");
  }
}

/// Gives up the pending targets; the targets stay as they are.
void Machine::abandon(Alias& alias, const std::string& reason) {
  write_history(alias, alias.row.pending_who, "abandoned", alias.row.pending, reason);
  out_->note(
      "a change of an alias is given up, the old targets stay",
      {{"alias", alias.row.name}, {"targets", targets_text(alias.row.pending)}, {"reason", reason}},
      true);
  alias.row.pending.clear();
  alias.row.pending_who.clear();
  alias.row.pending_ms = 0;
  want_placement_ = true;
  out_->write(AliasChange{PutAlias{alias.row}}, Durability::kFull);
}

}  // namespace holdfast::core
