// Canaries: a share of an alias for another model, compared with the stable side window by window,
// rolled back when its bounds are broken.
#include "control/core/canaries.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/core/admission.h"
#include "control/core/aliases.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/registry.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kSamplesOfWindow = 16;
constexpr const char* kRolledBack = "canary_rolled_back";

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

std::optional<wire::Refusal> Canaries::refuse_canary(const OpCanary& event) const {
  const auto alias = aliases_.all().find(event.name);
  if (alias == aliases_.all().end()) {
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
  return aliases_.refuse_targets({{event.model, 1}}, true);
}

void Canaries::on(const OpCanary& event) {
  auto refusal = refuse_canary(event);
  auto settings = canary_settings(event.settings, core_.config);
  if (!refusal && event.end == OpCanary::End::kNone && !settings) {
    refusal = refuse(Errc::kUsage, "models.canary: " + settings.error().what);
  }
  if (refusal) {
    core_.op_refused(event.peer, event.tag, std::move(*refusal));
    return;
  }
  Alias& alias = aliases_.all().at(event.name);
  if (event.end == OpCanary::End::kRollBack) {
    roll_back(alias, event.who, "asked by operator");
  } else if (event.end == OpCanary::End::kPromote) {
    promote(alias, event.who, "asked by operator");
  } else {
    begin_canary(alias, event, settings.value());
  }
  core_.op_done(event.peer, event.tag, "models.canary", event.name);
}

/// Begins a canary, or gives other settings to the one that runs: it keeps its requests and counts
/// anew.
void Canaries::begin_canary(Alias& alias, const OpCanary& event, const CanarySettings& settings) {
  const bool fresh = !alias.canary.has_value();
  if (fresh) {
    alias.canary.emplace();
    alias.canary->row.id = ++last_canary_;
    alias.canary->row.alias = event.name;
    alias.canary->row.model = event.model;
    alias.canary->row.started_ms = core_.now.wall_ms;
    registry_.load_again(registry_.models().at(event.model), "canary of alias " + event.name);
  }
  CanaryRow& row = alias.canary->row;
  row.settings = settings;
  row.who = event.who;
  row.passed = 0;
  row.suspect = false;
  aliases_.write_history(alias, event.who, fresh ? "canary asked for" : "canary changed",
                         alias.row.targets,
                         event.model + " " + std::to_string(settings.percent) + " %");
  core_.out->write(AliasChange{PutCanary{row}}, Durability::kFull);
  begin_window(alias);
  core_.want_aliases = true;
}

// ---- windows

void Canaries::begin_window(Alias& alias) {
  Canary& canary = *alias.canary;
  canary.stats = {};
  canary.window_started_ms = core_.now.wall_ms;
  const bool loading = canary.row.state == CanaryState::kLoading;
  const std::int64_t length_us = canary.row.settings.window_ms * 1000;
  canary.window_ends_us = core_.now.mono_us + length_us;
  canary.sample_us = core_.now.mono_us + std::max<std::int64_t>(length_us / kSamplesOfWindow, 1000);
  alias.waits_until_us = core_.now.mono_us + core_.config.aliases_ready_timeout_ms * 1000;
  core_.timers.add_keyed(loading ? alias.waits_until_us : canary.sample_us, TimerKind::kAlias,
                         alias.row.name);
}

void Canaries::look_at_canary(Alias& alias) {
  Canary& canary = *alias.canary;
  if (canary.row.state == CanaryState::kLoading) {
    const ModelRow& model = registry_.models().at(canary.row.model).row;
    if (model.state == ModelState::kFailed) {
      roll_back(alias, "holdfast", "its load failed: " + model.reason);
    } else if (model.state == ModelState::kReady) {
      canary.row.state = CanaryState::kRunning;
      aliases_.write_history(alias, canary.row.who, "canary started", alias.row.targets,
                             canary.row.model);
      core_.out->write(AliasChange{PutCanary{canary.row}}, Durability::kFull);
      core_.out->note("canary started", {{"alias", alias.row.name},
                                         {"model", canary.row.model},
                                         {"percent", std::to_string(canary.row.settings.percent)}});
      begin_window(alias);
    } else if (core_.now.mono_us >= alias.waits_until_us) {
      roll_back(
          alias, "holdfast",
          "not ready within " + std::to_string(core_.config.aliases_ready_timeout_ms) + " ms");
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
  if (core_.now.mono_us >= canary.sample_us) sample_queues(canary, alias);
  if (core_.now.mono_us >= canary.window_ends_us) end_window(alias);
}

/// Samples the choices that wait, per 100 slots of the side's models.
void Canaries::sample_queues(Canary& canary, const Alias& alias) {
  const auto sample = [&](Side side, const AliasTargets& targets) {
    std::int64_t waiting = 0;
    std::int64_t slots = 0;
    for (const AliasTarget& target : targets) {
      const auto queue = lifecycle_.queues().find(target.model);
      if (queue != lifecycle_.queues().end())
        waiting += static_cast<std::int64_t>(queue->second.size());
      for (const Load* load : loads_.all().of_model(target.model)) {
        const bool serves = load->worker != 0 && load->row.state == ModelState::kReady;
        if (serves) slots += load->row.slots;
      }
    }
    SideStats& stats = canary.stats[index(side)];
    stats.queue_sum += waiting * 100 / std::max<std::int64_t>(slots, 1);
    ++stats.samples;
  };
  sample(Side::kCanary, {{canary.row.model, 1}});
  sample(Side::kStable, alias.row.targets);
  const std::int64_t step_us = canary.row.settings.window_ms * 1000 / kSamplesOfWindow;
  canary.sample_us = core_.now.mono_us + std::max<std::int64_t>(step_us, 1000);
  core_.timers.add_keyed(std::min(canary.sample_us, canary.window_ends_us), TimerKind::kAlias,
                         alias.row.name);
}

/// Returns a side's evidence. A request that still waits for its first token counts with the time
/// that this has taken so far: a canary that hangs gives no other sign.
SideEvidence Canaries::evidence_of(const Canary& canary, Side side) const {
  const SideStats& stats = canary.stats[index(side)];
  Histogram ttft = stats.ttft;
  for (const auto& [seq, since_us] : canary.awaiting[index(side)]) {
    ttft.add(core_.now.mono_us - since_us);
  }
  return stats.evidence(ttft);
}

void Canaries::end_window(Alias& alias) {
  Canary& canary = *alias.canary;
  CanaryRow& row = canary.row;
  const SideEvidence mine = evidence_of(canary, Side::kCanary);
  const SideEvidence stable = evidence_of(canary, Side::kStable);
  if (mine.accepted + mine.refused + mine.ended + mine.interrupted + mine.ttft_count == 0) {
    // Nothing to decide about: the window goes on, without a row.
    canary.window_ends_us = core_.now.mono_us + row.settings.window_ms * 1000;
    core_.timers.add_keyed(canary.sample_us, TimerKind::kAlias, alias.row.name);
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
    core_.out->write(AliasChange{PutCanary{row}}, Durability::kFull);
    std::array<SideStats, 2> saved_stats = std::move(canary.stats);
    begin_window(alias);
    if (!verdict.enough) canary.stats = std::move(saved_stats);
  }
}

void Canaries::write_window(Alias& alias, CanaryDecision decision, const std::string& reason) {
  Canary& canary = *alias.canary;
  CanaryWindowRow row;
  row.canary = canary.row.id;
  row.window = ++canary.row.windows;
  row.started_ms = canary.window_started_ms;
  row.ended_ms = core_.now.wall_ms;
  row.decision = decision_name(decision);
  row.reason = reason;
  row.canary_side = evidence_of(canary, Side::kCanary);
  row.stable_side = evidence_of(canary, Side::kStable);
  core_.out->write(AliasChange{InsertCanaryWindow{row}}, Durability::kFull);
  core_.out->note("canary judged",
                  {{"alias", alias.row.name},
                   {"model", canary.row.model},
                   {"window", std::to_string(row.window)},
                   {"decision", row.decision},
                   {"reason", reason}},
                  decision == CanaryDecision::kRollBack);
}

// ---- ends

void Canaries::end_canary(Alias& alias, CanaryState state, const std::string& who,
                          const std::string& reason) {
  CanaryRow& row = alias.canary->row;
  row.state = state;
  row.ended_ms = core_.now.wall_ms;
  row.reason = reason;
  core_.out->write(AliasChange{PutCanary{row}}, Durability::kFull);
  if (state == CanaryState::kRolledBack) {
    aliases_.write_history(alias, who, "canary rolled back", alias.row.targets,
                           row.model + ": " + reason);
    rolled_back_[row.id] = row;
    if (rolled_back_.size() > kCanaryHistoryMax) rolled_back_.erase(rolled_back_.begin());
  }
  alias.canary.reset();
  core_.want_placement = true;  // models that had to stay for it may make room again
}

/// Gives everything new to the stable side, and of the requests that the canary has accepted those
/// without a committed token: their clients notice nothing. A request with a token ends where it
/// began.
void Canaries::roll_back(Alias& alias, const std::string& who, const std::string& reason) {
  const std::int64_t id = alias.canary->row.id;
  write_window(alias, CanaryDecision::kRollBack, reason);
  end_canary(alias, CanaryState::kRolledBack, who, reason);
  std::int64_t moved = 0;
  std::int64_t stayed = 0;
  for (auto& [seq, request] : lifecycle_.requests().all()) {
    if (request.row.canary != id || request.terminal()) continue;
    const bool gone = reroute(request);
    moved += gone;
    stayed += !gone;
  }
  core_.out->note("canary rolled back",
                  {{"alias", alias.row.name},
                   {"reason", reason},
                   {"rerouted", std::to_string(moved)},
                   {"end_there", std::to_string(stayed)}},
                  true);
}

void Canaries::promote(Alias& alias, const std::string& who, const std::string& reason) {
  const std::string model = alias.canary->row.model;
  write_window(alias, CanaryDecision::kPromote, reason);
  end_canary(alias, CanaryState::kPromoted, who, reason);
  aliases_.set_targets(alias, {{model, 1}}, who, "canary promoted", reason);
}

void Canaries::canary_load_failed(const Model& model, const std::string& reason) {
  const std::string& name = model.row.name;
  const LoadTable::Group& its = loads_.all().of_model(name);
  const bool works = std::any_of(its.begin(), its.end(), [](const Load* load) {
    return load->row.state == ModelState::kReady;
  });
  if (works) return;
  for (auto& [alias_name, alias] : aliases_.all()) {
    if (!alias.canary || alias.canary->row.model != name) continue;
    roll_back(alias, "holdfast", "its load failed: " + reason);
  }
}

/// Returns the stable target that this request would go to: one that understands its prompt and has
/// room for it. nullptr: there is none.
const Model* Canaries::target_for(const Request& request) const {
  const auto alias = aliases_.all().find(request.row.alias);
  const auto from = registry_.models().find(request.row.model);
  if (alias == aliases_.all().end() || from == registry_.models().end()) return nullptr;
  const auto usable = [&](const std::string& name) {
    const auto model = registry_.models().find(name);
    if (model == registry_.models().end() || model->second.row.state == ModelState::kFailed)
      return false;
    const ModelRow& to = model->second.row;
    const TokenBounds bounds = token_bounds(core_.config, request.row.tenant, name);
    const ContextVerdict fits =
        admit_context(request.prompt_tokens, request.row.max_tokens, to.context,
                      std::int64_t{to.pages} * kPageTokens, bounds);
    return same_tokenizer(from->second.row, to) && !fits.refusal;
  };
  const AliasTarget* target = choose_target(alias->second.row, request.row.route_key, usable);
  return target == nullptr || !usable(target->model) ? nullptr
                                                     : &registry_.models().at(target->model);
}

/// Moves a request to a stable target, under the ordinary rules. False if it has a committed token,
/// or no target can take it; then it stays where it is.
bool Canaries::reroute(Request& request) {
  if (has_token(request)) return false;
  const Model* target = target_for(request);
  if (target == nullptr) return false;
  std::vector<Choice*> moving;
  for (Choice& choice : request.choices) {
    if (choice.phase == ChoicePhase::kEnded) continue;
    moving.push_back(&choice);
    if (choice.phase == ChoicePhase::kQueued) {
      lifecycle_.dequeue(request, choice);
      continue;
    }
    if (choice.phase == ChoicePhase::kRunning) {
      core_.out->send(choice.worker,
                      wire::CancelWork{request.row.id, choice.row.choice, choice.fence});
    }
    lifecycle_.end_attempt(request, choice, kRolledBack);
    choice.phase = ChoicePhase::kQueued;
    choice.resumed = true;
    ++core_.counters.requeued;
  }
  lifecycle_.set_model_of(request, target->row);
  ++aliases_.all().at(request.row.alias).counters[index(Side::kCanary)].rerouted;
  core_.out->write(AliasChange{RerouteRequest{request.row.seq, request.row.model,
                                              request.row.model_sha, request.row.rerouted_from}},
                   Durability::kFull);
  if (request.row.state == RequestState::kRunning) {
    lifecycle_.change(request, RequestChange::kRequeued);
    lifecycle_.write_request(request, Durability::kNormal);
  }
  if (request.row.state == RequestState::kQuarantined) return true;
  for (Choice* choice : moving) lifecycle_.enqueue(request, *choice);
  return true;
}

void Canaries::reroute_late(Request& request) {
  if (request.terminal() || rolled_back_.count(request.row.canary) == 0) return;
  if (reroute(request)) {
    core_.out->note("a request of a canary that was rolled back goes to the stable side",
                    {{"request", request.row.id}});
  }
}

void Canaries::boot(const Boot& event) {
  for (const CanaryRow& row : event.canaries) {
    last_canary_ = std::max(last_canary_, row.id);
    if (row.state == CanaryState::kRolledBack) rolled_back_[row.id] = row;
    const auto alias = aliases_.all().find(row.alias);
    const bool open = row.state == CanaryState::kLoading || row.state == CanaryState::kRunning;
    if (!open || alias == aliases_.all().end()) continue;
    alias->second.canary.emplace();
    alias->second.canary->row = row;
    begin_window(alias->second);  // a window that the last process left open begins again
  }
}

}  // namespace holdfast::core
