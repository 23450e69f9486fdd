// Canaries: a share of an alias for another model, compared with the stable side window by window,
// rolled back when its bounds are broken.
#include <algorithm>

#include "control/core/machine.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kSamplesOfWindow = 16;
constexpr const char* kRolledBack = "canary_rolled_back";

std::size_t index(Side side) {
  return static_cast<std::size_t>(side);
}

/// Returns true if token ids mean the same in both models, and messages become the same ids.
bool same_tokenizer(const ModelRow& a, const ModelRow& b) {
  return a.sha == b.sha || (!a.tokenizer_sha.empty() && a.tokenizer_sha == b.tokenizer_sha);
}

bool has_token(const Request& request) {
  return !request.row.numerics_class.empty() ||
         std::any_of(request.choices.begin(), request.choices.end(), [](const Choice& choice) {
           return choice.row.next_index > 0 || choice.phase == ChoicePhase::kEnded;
         });
}

}  // namespace

// ---- operators

std::optional<wire::Refusal> Machine::refuse_canary(const OpCanary& event) const {
  const auto alias = aliases_.find(event.name);
  if (alias == aliases_.end()) {
    return refuse(Errc::kNotFound, "models.canary: there is no alias \"" + event.name + "\"");
  }
  const Alias& in = alias->second;
  if (event.end != OpCanary::End::kNone) {
    if (in.canary) return std::nullopt;
    return refuse(Errc::kConflict, "models.canary: \"" + event.name + "\" has no canary");
  }
  if (in.canary && in.canary->row.model != event.model) {
    return refuse(Errc::kConflict, "models.canary: canary " + in.canary->row.model + " of \"" +
                                       event.name + "\" has not ended; promote it or roll it back");
  }
  if (!in.row.pending.empty()) {
    return refuse(Errc::kConflict, "models.canary: \"" + event.name +
                                       "\" waits for other targets; wait until they are ready");
  }
  const bool stable =
      std::any_of(in.row.targets.begin(), in.row.targets.end(),
                  [&](const AliasTarget& target) { return target.model == event.model; });
  if (stable) {
    return refuse(Errc::kConflict, "models.canary: " + event.model + " is a target of \"" +
                                       event.name + "\" already; a canary must be another model");
  }
  return refuse_targets({{event.model, 1}}, true);
}

void Machine::on(const OpCanary& event) {
  auto refusal = refuse_canary(event);
  auto settings = canary_settings(event.settings, config_);
  if (!refusal && event.end == OpCanary::End::kNone && !settings) {
    refusal = refuse(Errc::kUsage, "models.canary: " + settings.error().what);
  }
  if (refusal) {
    op_refused(event.peer, event.tag, std::move(*refusal));
    return;
  }
  Alias& alias = aliases_.at(event.name);
  if (event.end == OpCanary::End::kRollBack) {
    roll_back(alias, event.who, "asked by operator");
  } else if (event.end == OpCanary::End::kPromote) {
    promote(alias, event.who, "asked by operator");
  } else {
    begin_canary(alias, event, settings.value());
  }
  op_done(event.peer, event.tag, "models.canary", event.name);
}

/// Begins a canary, or gives other settings to the one that runs: it keeps its requests and counts
/// anew.
void Machine::begin_canary(Alias& alias, const OpCanary& event, const CanarySettings& settings) {
  const bool fresh = !alias.canary.has_value();
  if (fresh) {
    alias.canary.emplace();
    alias.canary->row.id = ++last_canary_;
    alias.canary->row.alias = event.name;
    alias.canary->row.model = event.model;
    alias.canary->row.started_ms = now_.wall_ms;
    load_again(models_.at(event.model), "canary of alias " + event.name);
  }
  CanaryRow& row = alias.canary->row;
  row.settings = settings;
  row.who = event.who;
  row.passed = 0;
  row.suspect = false;
  write_history(alias, event.who, fresh ? "canary asked for" : "canary changed", alias.row.targets,
                event.model + " " + std::to_string(settings.percent) + " %");
  out_->write(AliasChange{PutCanary{row}}, Durability::kFull);
  begin_window(alias);
  want_aliases_ = true;
}

// ---- windows

void Machine::begin_window(Alias& alias) {
  Canary& canary = *alias.canary;
  canary.stats = {};
  canary.window_started_ms = now_.wall_ms;
  const bool loading = canary.row.state == CanaryState::kLoading;
  const std::int64_t length_us = canary.row.settings.window_ms * 1000;
  canary.window_ends_us = now_.mono_us + length_us;
  canary.sample_us = now_.mono_us + std::max<std::int64_t>(length_us / kSamplesOfWindow, 1000);
  alias.waits_until_us = now_.mono_us + config_.aliases_ready_timeout_ms * 1000;
  timers_.add_keyed(loading ? alias.waits_until_us : canary.sample_us, TimerKind::kAlias,
                    alias.row.name);
}

void Machine::look_at_canary(Alias& alias) {
  Canary& canary = *alias.canary;
  if (canary.row.state == CanaryState::kLoading) {
    const ModelRow& model = models_.at(canary.row.model).row;
    if (model.state == ModelState::kFailed) {
      roll_back(alias, "holdfast", "its load failed: " + model.reason);
    } else if (model.state == ModelState::kReady) {
      canary.row.state = CanaryState::kRunning;
      write_history(alias, canary.row.who, "canary started", alias.row.targets, canary.row.model);
      out_->write(AliasChange{PutCanary{canary.row}}, Durability::kFull);
      out_->note("canary started", {{"alias", alias.row.name},
                                    {"model", canary.row.model},
                                    {"percent", std::to_string(canary.row.settings.percent)}});
      begin_window(alias);
    } else if (now_.mono_us >= alias.waits_until_us) {
      roll_back(alias, "holdfast",
                "not ready within " + std::to_string(config_.aliases_ready_timeout_ms) + " ms");
    }
    return;
  }
  const std::string failing =
      clearly_failing(canary.row.settings, canary.stats[index(Side::kCanary)].counted,
                      canary.stats[index(Side::kStable)].counted);
  if (!failing.empty()) {
    roll_back(alias, "holdfast", "clear: " + failing);
    return;
  }
  if (now_.mono_us >= canary.sample_us) sample_queues(canary, alias);
  if (now_.mono_us >= canary.window_ends_us) end_window(alias);
}

/// Samples the choices that wait, per 100 slots of the side's models.
void Machine::sample_queues(Canary& canary, const Alias& alias) {
  const auto sample = [&](Side side, const AliasTargets& targets) {
    std::int64_t waiting = 0;
    std::int64_t slots = 0;
    for (const AliasTarget& target : targets) {
      const auto queue = queues_.find(target.model);
      if (queue != queues_.end()) waiting += static_cast<std::int64_t>(queue->second.size());
      for (const auto& [id, load] : loads_) {
        const bool serves = load.row.model == target.model && load.worker != 0;
        if (serves && load.row.state == ModelState::kReady) slots += load.row.slots;
      }
    }
    SideStats& stats = canary.stats[index(side)];
    stats.queue_sum += waiting * 100 / std::max<std::int64_t>(slots, 1);
    ++stats.samples;
  };
  sample(Side::kCanary, {{canary.row.model, 1}});
  sample(Side::kStable, alias.row.targets);
  const std::int64_t step_us = canary.row.settings.window_ms * 1000 / kSamplesOfWindow;
  canary.sample_us = now_.mono_us + std::max<std::int64_t>(step_us, 1000);
  timers_.add_keyed(std::min(canary.sample_us, canary.window_ends_us), TimerKind::kAlias,
                    alias.row.name);
}

/// Returns a side's evidence. A request that still waits for its first token counts with the time
/// that this has taken so far: a canary that hangs gives no other sign.
SideEvidence Machine::evidence_of(const Canary& canary, Side side) const {
  const SideStats& stats = canary.stats[index(side)];
  Histogram ttft = stats.ttft;
  for (const auto& [seq, since_us] : canary.awaiting[index(side)]) {
    ttft.add(now_.mono_us - since_us);
  }
  return stats.evidence(ttft);
}

void Machine::end_window(Alias& alias) {
  Canary& canary = *alias.canary;
  CanaryRow& row = canary.row;
  const SideEvidence mine = evidence_of(canary, Side::kCanary);
  const SideEvidence stable = evidence_of(canary, Side::kStable);
  if (mine.accepted + mine.refused + mine.ended + mine.interrupted + mine.ttft_count == 0) {
    // Nothing to decide about: the window goes on, without a row.
    canary.window_ends_us = now_.mono_us + row.settings.window_ms * 1000;
    timers_.add_keyed(canary.sample_us, TimerKind::kAlias, alias.row.name);
    return;
  }
  const CanaryVerdict verdict = judge_window(row.settings, mine, stable, row.suspect, row.passed);
  row.suspect = verdict.suspect;
  if (verdict.enough) row.passed = verdict.suspect ? 0 : row.passed + 1;
  if (verdict.decision == CanaryDecision::kRollBack) {
    roll_back(alias, "holdfast", verdict.reason);
  } else if (verdict.decision == CanaryDecision::kPromote) {
    promote(alias, "holdfast", verdict.reason);
  } else {
    write_window(alias, verdict.decision, verdict.reason);
    out_->write(AliasChange{PutCanary{row}}, Durability::kFull);
    std::array<SideStats, 2> saved_stats = std::move(canary.stats);
    begin_window(alias);
    if (!verdict.enough) canary.stats = std::move(saved_stats);
  }
}

void Machine::write_window(Alias& alias, CanaryDecision decision, const std::string& reason) {
  Canary& canary = *alias.canary;
  CanaryWindowRow row;
  row.canary = canary.row.id;
  row.window = ++canary.row.windows;
  row.started_ms = canary.window_started_ms;
  row.ended_ms = now_.wall_ms;
  row.decision = decision_name(decision);
  row.reason = reason;
  row.canary_side = evidence_of(canary, Side::kCanary);
  row.stable_side = evidence_of(canary, Side::kStable);
  out_->write(AliasChange{InsertCanaryWindow{row}}, Durability::kFull);
  out_->note("canary judged",
             {{"alias", alias.row.name},
              {"model", canary.row.model},
              {"window", std::to_string(row.window)},
              {"decision", row.decision},
              {"reason", reason}},
             decision == CanaryDecision::kRollBack);
}

// ---- ends

void Machine::end_canary(Alias& alias, CanaryState state, const std::string& who,
                         const std::string& reason) {
  CanaryRow& row = alias.canary->row;
  row.state = state;
  row.ended_ms = now_.wall_ms;
  row.reason = reason;
  out_->write(AliasChange{PutCanary{row}}, Durability::kFull);
  if (state == CanaryState::kRolledBack) {
    write_history(alias, who, "canary rolled back", alias.row.targets, row.model + ": " + reason);
    rolled_back_[row.id] = row;
    if (rolled_back_.size() > kCanaryHistoryMax) rolled_back_.erase(rolled_back_.begin());
  }
  alias.canary.reset();
  want_placement_ = true;  // models that had to stay for it may make room again
}

/// Gives everything new to the stable side, and of the requests that the canary has accepted those
/// without a committed token: their clients notice nothing. A request with a token ends where it
/// began.
void Machine::roll_back(Alias& alias, const std::string& who, const std::string& reason) {
  const std::int64_t id = alias.canary->row.id;
  write_window(alias, CanaryDecision::kRollBack, reason);
  end_canary(alias, CanaryState::kRolledBack, who, reason);
  std::int64_t moved = 0;
  std::int64_t stayed = 0;
  for (auto& [seq, request] : requests_.all()) {
    if (request.row.canary != id || request.terminal()) continue;
    const bool gone = reroute(request);
    moved += gone;
    stayed += !gone;
  }
  out_->note("canary rolled back",
             {{"alias", alias.row.name},
              {"reason", reason},
              {"rerouted", std::to_string(moved)},
              {"end_there", std::to_string(stayed)}},
             true);
}

void Machine::promote(Alias& alias, const std::string& who, const std::string& reason) {
  const std::string model = alias.canary->row.model;
  write_window(alias, CanaryDecision::kPromote, reason);
  end_canary(alias, CanaryState::kPromoted, who, reason);
  set_targets(alias, {{model, 1}}, who, "canary promoted", reason);
}

/// Rolls back the canaries of a model whose load failed, unless another load of the model works.
void Machine::canary_load_failed(const Model& model, const std::string& reason) {
  const std::string& name = model.row.name;
  const bool works = std::any_of(loads_.begin(), loads_.end(), [&](const auto& item) {
    return item.second.row.model == name && item.second.row.state == ModelState::kReady;
  });
  if (works) return;
  for (auto& [alias_name, alias] : aliases_) {
    if (!alias.canary || alias.canary->row.model != name) continue;
    roll_back(alias, "holdfast", "its load failed: " + reason);
  }
}

/// Returns the stable target that this request would go to: one that understands its prompt and has
/// room for it. nullptr: there is none.
const Model* Machine::target_for(const Request& request) const {
  const auto alias = aliases_.find(request.row.alias);
  const auto from = models_.find(request.row.model);
  if (alias == aliases_.end() || from == models_.end()) return nullptr;
  const auto usable = [&](const std::string& name) {
    const auto model = models_.find(name);
    if (model == models_.end() || model->second.row.state == ModelState::kFailed) return false;
    const ModelRow& to = model->second.row;
    const TokenBounds bounds = token_bounds(config_, request.row.tenant, name);
    const ContextVerdict fits =
        admit_context(request.prompt_tokens, request.row.max_tokens, to.context,
                      std::int64_t{to.pages} * kPageTokens, bounds);
    return same_tokenizer(from->second.row, to) && !fits.refusal;
  };
  const AliasTarget* target = choose_target(alias->second.row, request.row.route_key, usable);
  return target == nullptr || !usable(target->model) ? nullptr : &models_.at(target->model);
}

/// Moves a request to a stable target, under the ordinary rules. False if it has a committed token,
/// or no target can take it; then it stays where it is.
bool Machine::reroute(Request& request) {
  if (has_token(request)) return false;
  const Model* target = target_for(request);
  if (target == nullptr) return false;
  std::vector<Choice*> moving;
  for (Choice& choice : request.choices) {
    if (choice.phase == ChoicePhase::kEnded) continue;
    moving.push_back(&choice);
    if (choice.phase == ChoicePhase::kQueued) {
      dequeue(request, choice);
      continue;
    }
    if (choice.phase == ChoicePhase::kRunning) {
      out_->send(choice.worker, wire::CancelWork{request.row.id, choice.row.choice, choice.fence});
    }
    end_attempt(request, choice, kRolledBack);
    choice.phase = ChoicePhase::kQueued;
    choice.resumed = true;
    ++counters_.requeued;
  }
  set_model_of(request, target->row);
  ++aliases_.at(request.row.alias).counters[index(Side::kCanary)].rerouted;
  out_->write(AliasChange{RerouteRequest{request.row.seq, request.row.model, request.row.model_sha,
                                         request.row.rerouted_from}},
              Durability::kFull);
  if (request.row.state == RequestState::kRunning) {
    change(request, RequestChange::kRequeued);
    write_request(request, Durability::kNormal);
  }
  if (request.row.state == RequestState::kQuarantined) return true;
  for (Choice* choice : moving) enqueue(request, *choice);
  return true;
}

void Machine::set_model_of(Request& request, const ModelRow& model) {
  UsageTracker& usage = requests_.usage();
  const bool queued = request.row.state == RequestState::kQueued;
  usage.count_request(request.row, request.payload_bytes, -1);
  if (queued) usage.count_waiting(request.row, -1);
  request.row.rerouted_from = request.row.model;
  request.row.model = model.name;
  request.row.model_sha = model.sha;
  request.row.canary = 0;
  usage.count_request(request.row, request.payload_bytes, 1);
  if (queued) usage.count_waiting(request.row, 1);
}

/// Reroutes a request whose canary was rolled back while it was still to be read from the database.
void Machine::reroute_late(Request& request) {
  if (request.terminal() || rolled_back_.count(request.row.canary) == 0) return;
  if (reroute(request)) {
    out_->note("a request of a canary that was rolled back goes to the stable side",
               {{"request", request.row.id}});
  }
}

// ---- counting

SideStats* Machine::side_stats(const Request& request, Canary** canary) {
  if (request.row.alias.empty() || !request.row.rerouted_from.empty()) return nullptr;
  const auto alias = aliases_.find(request.row.alias);
  if (alias == aliases_.end() || !alias->second.canary) return nullptr;
  Canary& open = *alias->second.canary;
  if (open.row.state != CanaryState::kRunning) return nullptr;
  if (request.row.canary != 0 && request.row.canary != open.row.id) return nullptr;
  if (canary != nullptr) *canary = &open;
  return &open.stats[request.row.canary == 0 ? 0 : 1];
}

void Machine::count_refused(const Route& route) {
  const auto alias = aliases_.find(route.alias);
  if (route.alias.empty() || alias == aliases_.end()) return;
  ++alias->second.counters[index(route.side())].refused;
  if (alias->second.canary && alias->second.canary->row.state == CanaryState::kRunning) {
    ++alias->second.canary->stats[index(route.side())].counted.refused;
  }
}

void Machine::count_accepted(const Request& request) {
  const auto alias = aliases_.find(request.row.alias);
  if (request.row.alias.empty() || alias == aliases_.end()) return;
  const std::size_t side = request.row.canary == 0 ? 0 : 1;
  ++alias->second.counters[side].accepted;
  Canary* canary = nullptr;
  SideStats* stats = side_stats(request, &canary);
  if (stats == nullptr) return;
  ++stats->counted.accepted;
  canary->awaiting[side][request.row.seq] = now_.mono_us;
}

/// Counts `count` tokens of this choice that are committed now; the ones before came at
/// `last_token_us`.
void Machine::count_for_alias(const Request& request, const Choice& choice, std::int64_t count) {
  if (request.row.alias.empty()) return;
  const std::int64_t before_us = choice.last_token_us;
  Canary* canary = nullptr;
  SideStats* stats = side_stats(request, &canary);
  if (stats == nullptr) return;
  auto& awaiting = canary->awaiting[request.row.canary == 0 ? 0 : 1];
  if (const auto first = awaiting.find(request.row.seq); first != awaiting.end()) {
    stats->ttft.add(now_.mono_us - first->second);
    awaiting.erase(first);
  }
  if (before_us != 0) stats->itl.add((now_.mono_us - before_us) / count, count);
}

void Machine::count_end(const Request& request, RequestChange what) {
  const auto alias = aliases_.find(request.row.alias);
  if (request.row.alias.empty() || alias == aliases_.end()) return;
  const std::size_t side = request.row.canary == 0 ? 0 : 1;
  SideCounters& counters = alias->second.counters[side];
  counters.succeeded += what == RequestChange::kSucceeded;
  counters.failed += what == RequestChange::kFailed;
  counters.cancelled += what == RequestChange::kCancelled;
  counters.expired += what == RequestChange::kExpired;
  Canary* canary = nullptr;
  SideStats* stats = side_stats(request, &canary);
  if (stats == nullptr) return;
  if (const auto first = canary->awaiting[side].find(request.row.seq);
      first != canary->awaiting[side].end()) {
    // A client that left without a token has waited at least so long.
    const bool orphan = what == RequestChange::kCancelled && request.subscribers == 0 &&
                        request.orphan_deadline_us != 0;
    if (orphan) stats->ttft.add(now_.mono_us - first->second);
    canary->awaiting[side].erase(first);
  }
  if (what == RequestChange::kCancelled) return;
  // Counted when it was quarantined; its end is no second failure.
  if (request.failure_counted) return;
  count_outcome(*stats, what == RequestChange::kExpired ||
                            (what == RequestChange::kFailed &&
                             request.row.error_code != errc_name(Errc::kInvalidRequest)));
}

/// Counts an end for any reason: one that lies in the requests shows on both sides alike.
void Machine::count_outcome(SideStats& stats, bool failed) {
  ++stats.counted.ended;
  stats.counted.failed += failed;
  want_aliases_ = want_aliases_ || failed;  // the canary may clearly fail already
}

void Machine::count_quarantined(const Request& request) {
  if (SideStats* stats = side_stats(request)) count_outcome(*stats, true);
}

void Machine::count_interrupted(const Request& request) {
  SideStats* stats = side_stats(request);
  if (stats == nullptr) return;
  ++stats->counted.interrupted;
  want_aliases_ = true;
}

}  // namespace holdfast::core
