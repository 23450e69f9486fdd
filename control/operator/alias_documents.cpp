#include "control/operator/alias_documents.h"

#include <nlohmann/json.hpp>

namespace holdfast::daemon {
namespace {

using nlohmann::json;

json targets_json(const core::Machine& machine, const core::AliasTargets& targets,
                  std::int64_t of_percent) {
  std::int64_t sum = 0;
  for (const core::AliasTarget& target : targets) sum += target.weight;
  json list = json::array();
  for (const core::AliasTarget& target : targets) {
    const auto model = machine.registry().models().find(target.model);
    const double share = static_cast<double>(target.weight * of_percent * 10 / sum) / 10;
    list.push_back({{"model", target.model},
                    {"weight", target.weight},
                    {"share_percent", share},
                    {"state", model == machine.registry().models().end()
                                  ? "removed"
                                  : std::string(core::model_state_name(model->second.row.state))}});
  }
  return list;
}

json settings_json(const core::CanarySettings& settings) {
  json j = json::object();
  for (const core::CanaryField& field : core::canary_fields()) {
    j[field.name] = settings.*field.field;
  }
  return j;
}

json side_json(const core::SideEvidence& side) {
  json j = json::object();
  for (const core::EvidenceField& field : core::evidence_fields()) {
    j[field.name] = side.*field.field;
  }
  return j;
}

json canary_json(const core::CanaryRow& row) {
  return {{"id", row.id},
          {"model", row.model},
          {"state", core::canary_state_name(row.state)},
          {"windows", row.windows},
          {"passed", row.passed},
          {"suspect", row.suspect},
          {"started_ms", row.started_ms},
          {"ended_ms", row.ended_ms},
          {"who", row.who},
          {"reason", row.reason},
          {"settings", settings_json(row.settings)}};
}

json counters_json(const core::SideCounters& c) {
  return {{"accepted", c.accepted}, {"refused", c.refused}, {"succeeded", c.succeeded},
          {"failed", c.failed},     {"expired", c.expired}, {"cancelled", c.cancelled},
          {"rerouted", c.rerouted}};
}

/// Targets with their shares as text, for lists: "m1 75 %, m2 25 %".
std::string in_words(const json& targets) {
  std::string text;
  for (const json& target : targets) {
    json share = target.at("share_percent");
    const double percent = share.get<double>();
    if (percent == static_cast<double>(static_cast<std::int64_t>(percent))) {
      share = static_cast<std::int64_t>(percent);
    }
    text += (text.empty() ? "" : ", ") + target.at("model").get<std::string>() + " " +
            share.dump() + " %";
  }
  return text;
}

}  // namespace

json alias_json(const core::Machine& machine, const core::Alias& alias) {
  const core::AliasRow& r = alias.row;
  const core::CanaryRow* canary = alias.canary ? &alias.canary->row : nullptr;
  const bool routes = canary != nullptr && canary->state == core::CanaryState::kRunning;
  json targets = targets_json(machine, r.targets, routes ? 100 - canary->settings.percent : 100);
  std::string stands_for = in_words(targets);
  if (routes) {
    stands_for +=
        ", canary " + canary->model + " " + std::to_string(canary->settings.percent) + " %";
  }
  json j = {{"name", r.name},
            {"alias", true},
            {"stands_for", std::move(stands_for)},
            {"targets", std::move(targets)},
            {"created_ms", r.created_ms},
            {"changed_ms", r.changed_ms},
            {"stable_requests", counters_json(alias.counters[0])},
            {"canary_requests", counters_json(alias.counters[1])}};
  if (!r.pending.empty()) {
    j["waits_for"] = targets_json(machine, r.pending, 100);
    j["waits_since_ms"] = r.pending_ms;
    j["waits_who"] = r.pending_who;
  }
  if (canary != nullptr) j["canary"] = canary_json(*canary);
  return j;
}

json aliases_json(const core::Machine& machine) {
  json list = json::array();
  for (const auto& [name, alias] : machine.aliases().all())
    list.push_back(alias_json(machine, alias));
  return list;
}

Result<json> alias_history_json(const std::string& name, std::int64_t limit, store::Store& store) {
  HOLDFAST_TRY(const auto changes, store.alias_history(name, limit));
  if (changes.empty()) {
    return Error{Errc::kNotFound, "there is no alias \"" + name + "\"; see models alias"};
  }
  HOLDFAST_TRY(const auto canaries, store.canaries(name, limit));
  HOLDFAST_TRY(const auto windows, store.canary_windows(name, limit));
  json j = {{"name", name},
            {"history", json::array()},
            {"canaries", json::array()},
            {"windows", json::array()}};
  for (const core::AliasHistoryRow& row : changes) {
    j["history"].push_back({{"at_ms", row.at_ms},
                            {"who", row.who},
                            {"action", row.action},
                            {"from", row.from},
                            {"to", row.to},
                            {"reason", row.reason}});
  }
  for (const core::CanaryRow& row : canaries) j["canaries"].push_back(canary_json(row));
  for (const core::CanaryWindowRow& row : windows) {
    j["windows"].push_back({{"canary", row.canary},
                            {"window", row.window},
                            {"started_ms", row.started_ms},
                            {"ended_ms", row.ended_ms},
                            {"decision", row.decision},
                            {"reason", row.reason},
                            {"canary_side", side_json(row.canary_side)},
                            {"stable_side", side_json(row.stable_side)}});
  }
  return j;
}

}  // namespace holdfast::daemon
