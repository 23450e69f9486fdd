#include "control/core/config.h"

#include <algorithm>
#include <charconv>

#include "shared/base/check.h"

namespace holdfast::core {
namespace {

constexpr std::size_t kSubjectBytes = 128;

constexpr std::int64_t SubjectConfig::*kSubjectFields[] = {
    &SubjectConfig::weight,
    &SubjectConfig::max_requests,
    &SubjectConfig::max_waiting,
    &SubjectConfig::max_running,
    &SubjectConfig::max_pages,
    &SubjectConfig::max_prompt_tokens,
    &SubjectConfig::max_output_tokens,
    &SubjectConfig::max_bytes,
    &SubjectConfig::replicas,
    &SubjectConfig::dwell_ms,
    &SubjectConfig::idle_unload_s,
    &SubjectConfig::max_objects,
    &SubjectConfig::max_object_bytes,
    &SubjectConfig::max_responses,
    &SubjectConfig::max_open_batches,
};

/// The subject's own values over those of all ("*") over `rest`.
SubjectConfig resolve(const Subjects& subjects, std::string_view name, SubjectConfig rest) {
  if (subjects.empty()) return rest;
  for (const std::string_view who : {std::string_view("*"), name}) {
    const auto it = subjects.find(who);
    if (it == subjects.end()) continue;
    for (const auto field : kSubjectFields) {
      if (it->second.*field != SubjectConfig::kUnset) rest.*field = it->second.*field;
    }
    if (!it->second.share_prefixes.empty()) rest.share_prefixes = it->second.share_prefixes;
  }
  return rest;
}

const SubjectConfig kUnbounded = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {}};

std::string knobs_of_same_group(std::string_view name) {
  std::string near;
  const auto add = [&](std::string text) { near += (near.empty() ? "" : ", ") + text; };
  const std::string_view group = name.substr(0, name.find('.'));
  for (const SubjectKind& kind : subject_kinds()) {
    if (group != kind.prefix) continue;
    for (const Knob& knob : kind.knobs) {
      add(std::string(kind.prefix) + ".NAME." + std::string(knob.name));
    }
  }
  for (const Knob& knob : knobs()) {
    if (knob.name.substr(0, knob.name.find('.')) == group) add(std::string(knob.name));
  }
  return near;
}

}  // namespace

SubjectConfig Config::tenant(std::string_view name) const {
  SubjectConfig limits = resolve(tenants, name, kUnbounded);
  if (limits.max_requests == 0) limits.max_requests = queue_max_tenant_requests;
  return limits;
}

std::string Config::prefix_group(std::string_view name) const {
  std::string group = tenants.empty() ? "" : tenant(name).share_prefixes;
  return group.empty() ? "tenant " + std::string(name) : "group " + group;
}

SubjectConfig Config::model(std::string_view name) const {
  SubjectConfig rest = kUnbounded;
  rest.replicas = models_replicas;
  rest.dwell_ms = models_dwell_ms;
  rest.idle_unload_s = models_idle_unload_s;
  return resolve(models, name, rest);
}

SubjectConfig Config::worker(std::string_view key) const {
  return resolve(workers, key, kUnbounded);
}

std::string NamedKnob::name() const {
  if (kind_ == nullptr) return std::string(knob_->name);
  return std::string(kind_->prefix) + "." + subject_ + "." + std::string(knob_->name);
}

std::int64_t NamedKnob::get(const Config& config) const {
  CHECK_MSG(!is_text(), "a knob that holds a number");
  if (kind_ == nullptr) return config.*knob_->field;
  return (config.*kind_->effective)(subject_).*knob_->subject_field;
}

KnobValue NamedKnob::value(const Config& config) const {
  if (!is_text()) return get(config);
  if (kind_ == nullptr) return config.*knob_->text;
  return (config.*kind_->effective)(subject_).*knob_->subject_text;
}

Result<void> NamedKnob::set_text(Config& config, std::string_view text) const {
  if (is_text()) {
    const Result<void> good = knob_->good(text);
    if (!good) return Error{Errc::kUsage, "config " + name() + ": " + good.error().what};
    if (kind_ == nullptr) {
      config.*knob_->text = text;
    } else {
      (config.*kind_->map)[subject_].*knob_->subject_text = text;
    }
    return {};
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Error{Errc::kUsage, "config " + name() + ": \"" + std::string(text) +
                                   "\" is not a whole number" +
                                   (knob_->unit.empty() ? "" : " of " + std::string(knob_->unit))};
  }
  if (value < knob_->min || value > knob_->max) {
    return Error{Errc::kUsage, "config " + name() + ": " + std::to_string(value) +
                                   " is out of range; expected " + std::to_string(knob_->min) +
                                   " to " + std::to_string(knob_->max) + " " +
                                   std::string(knob_->unit)};
  }
  set(config, value);
  return {};
}

void NamedKnob::restore(Config& config, const KnobValue& value) const {
  if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr && !is_text()) {
    set(config, std::clamp(*number, knob_->min, knob_->max));
  } else if (is_text()) {
    (void)set_text(config, to_text(value));
  }
}

void NamedKnob::set(Config& config, std::int64_t value) const {
  if (kind_ == nullptr) {
    config.*knob_->field = value;
  } else {
    (config.*kind_->map)[subject_].*knob_->subject_field = value;
  }
}

std::optional<NamedKnob> find_knob(std::string_view name) {
  for (const Knob& knob : knobs()) {
    if (knob.name == name) return NamedKnob(knob);
  }
  for (const SubjectKind& kind : subject_kinds()) {
    const std::size_t begin = kind.prefix.size() + 1;
    const std::size_t dot = name.rfind('.');  // a subject's name may have dots
    if (!name.starts_with(kind.prefix) || name.size() < begin || name[begin - 1] != '.') continue;
    if (dot == std::string_view::npos || dot <= begin || dot - begin > kSubjectBytes) continue;
    for (const Knob& knob : kind.knobs) {
      if (knob.name != name.substr(dot + 1)) continue;
      return NamedKnob(knob, kind, std::string(name.substr(begin, dot - begin)));
    }
  }
  return std::nullopt;
}

std::string to_text(const KnobValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return std::to_string(std::get<std::int64_t>(value));
}

Result<void> set_knob(Config& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return Error{Errc::kUsage, "config \"" + std::string(assignment) + "\": expected name=value"};
  }
  const std::string_view name = assignment.substr(0, equals);
  const std::string_view text = assignment.substr(equals + 1);
  if (const auto knob = find_knob(name)) return knob->set_text(config, text);
  const std::string near = knobs_of_same_group(name);
  return Error{Errc::kUsage, "config: unknown key \"" + std::string(name) + "\"" +
                                 (near.empty() ? "; see config list" : "; known here: " + near)};
}

}  // namespace holdfast::core
