#include "control/core/config_version.h"

#include <algorithm>
#include <set>

namespace holdfast::core {
namespace {

std::string canonical(const std::vector<Assignment>& content) {
  std::map<std::string, std::string> sorted;
  for (const Assignment& a : content) sorted[a.name] = a.value.value_or("");
  std::string text;
  for (const auto& [name, value] : sorted) text += name + "=" + value + "\n";
  return text;
}

/// The version after `current`, with its own data; the caller changes the settings.
ConfigVersion successor(const ConfigVersion& current, const ChangeOrigin& origin) {
  ConfigVersion next = current;
  next.version = current.version + 1;
  next.at_ms = origin.at_ms;
  next.source = origin.source;
  next.who = origin.who;
  next.change.clear();
  return next;
}

Result<void> assign(ConfigVersion& next, const Config& base, const Assignment& assignment,
                    const ChangeOrigin& origin) {
  if (!assignment.value.has_value()) {
    if (!find_knob(assignment.name) && next.settings.count(assignment.name) == 0) {
      Config scratch = base;
      return set_knob(scratch, assignment.name + "=0");  // its error names what is known
    }
    next.settings.erase(assignment.name);
    return {};
  }
  Config scratch = base;
  HOLDFAST_CHECKED(set_knob(scratch, assignment.name + "=" + *assignment.value));
  Setting setting{find_knob(assignment.name)->value(scratch), origin.source, origin.who,
                  next.version, origin.at_ms};
  const auto previous = next.settings.find(assignment.name);
  // The same value from the same source: its first time is the one to explain.
  if (previous != next.settings.end() && previous->second.value == setting.value &&
      previous->second.source == setting.source) {
    return {};
  }
  next.settings[assignment.name] = std::move(setting);
  return {};
}

std::string format_value(const KnobValue& value) {
  return std::holds_alternative<std::string>(value) ? "\"" + to_text(value) + "\"" : to_text(value);
}

}  // namespace

std::vector<NamedKnob> knobs_of(const std::vector<const ConfigVersion*>& versions) {
  std::vector<NamedKnob> all;
  for (const Knob& knob : knobs()) all.emplace_back(knob);
  std::set<std::string> visited;
  for (const ConfigVersion* version : versions) {
    for (const auto& [name, setting] : version->settings) {
      const auto knob = find_knob(name);
      if (!knob || !knob->of_subject() || !visited.insert(name).second) continue;
      all.push_back(*knob);
    }
  }
  return all;
}

Result<Assignment> parse_assignment(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return Error{Errc::kUsage, "config \"" + std::string(text) + "\": expected name=value"};
  }
  return Assignment{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

Config effective_config(const Config& base, const ConfigVersion& version,
                        std::vector<std::string>* unknown) {
  Config config = base;
  for (const auto& [name, setting] : version.settings) {
    if (const auto named = find_knob(name)) {
      named->restore(config, setting.value);
    } else if (unknown != nullptr) {
      unknown->push_back(name);
    }
  }
  return config;
}

std::string describe_change(const Config& base, const ConfigVersion& from,
                            const ConfigVersion& to) {
  const Config before = effective_config(base, from);
  const Config after = effective_config(base, to);
  std::string text;
  for (const NamedKnob& knob : knobs_of({&from, &to})) {
    const KnobValue a = knob.value(before);
    const KnobValue b = knob.value(after);
    if (a == b) continue;
    text +=
        (text.empty() ? "" : ", ") + knob.name() + " " + format_value(a) + " -> " + format_value(b);
  }
  return text.empty() ? "no value changed" : text;
}

Result<ConfigVersion> changed_version(const ConfigVersion& current, const Config& base,
                                      const std::vector<Assignment>& changes,
                                      const ChangeOrigin& origin) {
  if (changes.empty()) return Error{Errc::kUsage, "config: nothing to change was named"};
  ConfigVersion next = successor(current, origin);
  for (const Assignment& change : changes) HOLDFAST_CHECKED(assign(next, base, change, origin));
  next.change = describe_change(base, current, next);
  return next;
}

Result<std::optional<ConfigVersion>> imported_version(const ConfigVersion& current,
                                                      const Config& base,
                                                      const std::vector<Assignment>& content,
                                                      const ChangeOrigin& origin) {
  const std::string said = canonical(content);
  const auto before = current.imports.find(origin.source);
  // Checked also when nothing changed: a value that this program refuses must not pass in silence.
  ConfigVersion next = successor(current, origin);
  for (const Assignment& a : content) HOLDFAST_CHECKED(assign(next, base, a, origin));
  if (said == (before == current.imports.end() ? std::string() : before->second)) {
    return std::optional<ConfigVersion>();
  }
  std::erase_if(next.settings, [&](const auto& item) {
    return item.second.source == origin.source &&
           std::none_of(content.begin(), content.end(),
                        [&](const Assignment& a) { return a.name == item.first; });
  });
  next.imports[origin.source] = said;
  next.change = describe_change(base, current, next);
  return std::optional<ConfigVersion>(std::move(next));
}

Config startup_config(const Config& base, const std::vector<ConfigVersion>& versions,
                      const std::vector<ConfigImport>& imports) {
  ConfigVersion newest = versions.empty() ? ConfigVersion() : versions.back();
  for (const ConfigImport& import : imports) {
    auto next = imported_version(newest, base, import.content, {import.source, import.who, 0});
    if (next && next->has_value()) newest = std::move(**next);
  }
  return effective_config(base, newest);
}

ConfigVersion rolled_back_version(const ConfigVersion& current, const Config& base,
                                  const ConfigVersion& target, const ChangeOrigin& origin) {
  ConfigVersion next = successor(current, origin);
  next.settings = target.settings;
  next.change = "back to version " + std::to_string(target.version) + ": " +
                describe_change(base, current, next);
  return next;
}

}  // namespace holdfast::core
