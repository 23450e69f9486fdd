#include "control/operator/config_documents.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

json to_json(const core::KnobValue& value) {
  return std::visit([](const auto& held) { return json(held); }, value);
}

/// One knob: its setting, the value in effect, the source of the value.
json knob_json(const core::NamedKnob& named, const core::Machine& machine) {
  const core::Knob& knob = named.knob();
  const core::ConfigVersion& newest = machine.config_history().config_version();
  const core::KnobValue standard = named.value(machine.config_history().base());
  const core::KnobValue effective = named.value(machine.config());
  const auto setting = newest.settings.find(named.name());
  const bool is_set = setting != newest.settings.end();
  const core::KnobValue value = is_set ? setting->second.value : standard;
  json j = {{"name", named.name()},
            {"value", to_json(value)},
            {"effective", to_json(effective)},
            {"default", to_json(standard)},
            {"unit", knob.unit},
            {"source", is_set ? setting->second.source : "default"},
            {"who", is_set ? setting->second.who : ""},
            {"version", is_set ? setting->second.version : 0},
            {"at_ms", is_set ? setting->second.at_ms : 0},
            {"restart", knob.restart},
            {"restart_pending", value != effective},
            {"help", knob.doc}};
  if (named.is_text()) return j;
  j["min"] = knob.min;
  j["max"] = knob.max;
  return j;
}

json version_json(const core::ConfigVersion& v) {
  return {{"version", v.version}, {"at_ms", v.at_ms},   {"source", v.source},
          {"who", v.who},         {"change", v.change}, {"settings", v.settings.size()}};
}

Result<core::NamedKnob> named_knob(const json& args) {
  const std::string name = args.value("name", std::string());
  if (auto knob = core::find_knob(name)) return *std::move(knob);
  return Error{Errc::kNotFound, "config: no knob \"" + name + "\"; see config list"};
}

/// The knob, with each version that changed its effective value.
json explain(const core::NamedKnob& knob, const core::Machine& machine) {
  json j = knob_json(knob, machine);
  json history = json::array();
  core::KnobValue before = knob.value(machine.config_history().base());
  for (const core::ConfigVersion& v : machine.config_history().versions()) {
    const core::KnobValue now =
        knob.value(core::effective_config(machine.config_history().base(), v));
    if (now == before) continue;
    history.push_back({{"version", v.version},
                       {"at_ms", v.at_ms},
                       {"source", v.source},
                       {"who", v.who},
                       {"from", to_json(before)},
                       {"to", to_json(now)}});
    before = now;
  }
  j["history"] = std::move(history);
  return j;
}

const core::ConfigVersion* find_version(const core::Machine& machine, std::int64_t number) {
  static const core::ConfigVersion defaults;
  if (number == 0) return &defaults;
  for (const core::ConfigVersion& v : machine.config_history().versions()) {
    if (v.version == number) return &v;
  }
  return nullptr;
}

Result<json> diff(const json& args, const core::Machine& machine) {
  const std::int64_t newest = machine.config_history().config_version().version;
  const std::int64_t to = args.value("to", newest);
  const std::int64_t from = args.value("from", std::max<std::int64_t>(to - 1, 0));
  const core::ConfigVersion* a = find_version(machine, from);
  const core::ConfigVersion* b = find_version(machine, to);
  if (a == nullptr || b == nullptr) {
    return Error{Errc::kNotFound, "config: no version " + std::to_string(a == nullptr ? from : to) +
                                      " is kept; see config history"};
  }
  json changes = json::array();
  const core::Config before = core::effective_config(machine.config_history().base(), *a);
  const core::Config after = core::effective_config(machine.config_history().base(), *b);
  for (const core::NamedKnob& knob : core::knobs_of({a, b})) {
    const core::KnobValue was = knob.value(before);
    const core::KnobValue is = knob.value(after);
    if (was == is) continue;
    changes.push_back({{"name", knob.name()}, {"from", to_json(was)}, {"to", to_json(is)}});
  }
  return json{{"from", from}, {"to", to}, {"changes", std::move(changes)}};
}

json history(const json& args, const core::Machine& machine) {
  const auto limit = static_cast<std::size_t>(args.value("limit", std::uint32_t{50}));
  json list = json::array();
  const auto& versions = machine.config_history().versions();
  for (auto it = versions.rbegin(); it != versions.rend() && list.size() < limit; ++it) {
    list.push_back(version_json(*it));
  }
  return json{{"version", machine.config_history().config_version().version},
              {"history", std::move(list)}};
}

json list(const core::Machine& machine) {
  json knobs = json::array();
  for (const core::NamedKnob& knob : core::knobs_of({&machine.config_history().config_version()})) {
    knobs.push_back(knob_json(knob, machine));
  }
  return {{"version", machine.config_history().config_version().version},
          {"config", std::move(knobs)}};
}

/// The version after a change, and the knobs that wait for a restart.
json changed(const core::Machine& machine) {
  json j = version_json(machine.config_history().config_version());
  json pending = json::array();
  for (const core::NamedKnob& knob : core::knobs_of({&machine.config_history().config_version()})) {
    const json k = knob_json(knob, machine);
    if (k["restart_pending"].get<bool>()) pending.push_back(knob.name());
  }
  j["restart_pending"] = std::move(pending);
  return j;
}

Result<json> document(const std::string& verb, const json& args, const core::Machine& machine) {
  if (verb == "config.list") return list(machine);
  if (verb == "config.history") return history(args, machine);
  if (verb == "config.diff") return diff(args, machine);
  if (verb == "config.get" || verb == "config.explain") {
    HOLDFAST_TRY(const core::NamedKnob knob, named_knob(args));
    return verb == "config.get" ? knob_json(knob, machine) : explain(knob, machine);
  }
  return changed(machine);
}

}  // namespace

Result<std::string> config_document(const std::string& verb, const std::string& args,
                                    const core::Machine& machine) {
  const json parsed = args.empty() ? json::object() : try_parse_json<json>(args);
  if (!parsed.is_object()) return Error{Errc::kUsage, verb + ": arguments are not a JSON object"};
  try {
    HOLDFAST_TRY(const json j, document(verb, parsed, machine));
    return j.dump(-1, ' ', false, json::error_handler_t::replace);
  } catch (const json::exception& e) {
    return Error{Errc::kUsage, verb + ": arguments: " + e.what()};
  }
}

}  // namespace holdfast::daemon
