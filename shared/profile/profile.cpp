#include "shared/profile/profile.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "shared/base/bytes.h"
#include "shared/base/json_text.h"
#include "shared/chat/messages.h"
#include "shared/sampling/extra.h"
#include "shared/wire/bounds.h"

namespace holdfast::profile {
namespace {

using json = nlohmann::ordered_json;
using sampling::Parameter;

Error invalid(const std::string& what) {
  return {Errc::kInvalidRequest, "profile: " + what};
}

Error wrong_parameter(std::string_view name, const std::string& expected) {
  return invalid("parameters." + std::string(name) + ": expected " + expected);
}

/// Returns the text of one JSON value; bytes that are not UTF-8 are replaced.
std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Error out_of_range(const Parameter& parameter, const json& value) {
  return invalid("parameters." + sampling::out_of_range(parameter, dump(value)));
}

/// Reads the value of one parameter: a plain one into the member, others into the extra.
class ParameterReader {
 public:
  ParameterReader(const Parameter& parameter, const json& value, wire::Sampling& plain, json& extra)
      : parameter_(parameter), value_(value), plain_(plain), extra_(extra) {}

  Result<void> operator()(float wire::Sampling::*member) const {
    if (!value_.is_number()) return wrong_parameter(parameter_.name, "a number");
    const auto number = value_.get<double>();
    if (!sampling::is_valid(parameter_, number)) return out_of_range(parameter_, value_);
    plain_.*member = static_cast<float>(number);
    return {};
  }
  Result<void> operator()(std::int32_t wire::Sampling::*member) const {
    const double number = value_.is_number() ? value_.get<double>() : NAN;
    if (number != std::floor(number)) return wrong_parameter(parameter_.name, "a whole number");
    if (!sampling::is_valid(parameter_, number)) return out_of_range(parameter_, value_);
    plain_.*member = std::max(static_cast<std::int32_t>(number),
                              parameter_.name == "top_k" ? 0 : INT32_MIN);  // -1: another word
    return {};
  }
  Result<void> operator()(std::uint64_t wire::Sampling::*member) const {
    if (!value_.is_number_integer()) return wrong_parameter(parameter_.name, "a whole number");
    plain_.*member = value_.is_number_unsigned()
                         ? value_.get<std::uint64_t>()
                         : static_cast<std::uint64_t>(value_.get<std::int64_t>());
    return {};
  }
  Result<void> operator()(bool wire::Sampling::*member) const {
    if (!value_.is_boolean()) return wrong_parameter(parameter_.name, "true or false");
    plain_.*member = value_.get<bool>();
    return {};
  }
  template <class T>
  Result<void> operator()(T sampling::SamplingOptions::*) const {
    const std::string name(parameter_.name);
    const auto good = sampling::parse_extra(dump(json{{name, value_}}), INT32_MAX);
    if (!good) return invalid("parameters." + name + ": " + good.error().what);
    extra_[name] = value_;
    return {};
  }

 private:
  const Parameter& parameter_;
  const json& value_;
  wire::Sampling& plain_;
  json& extra_;
};

Result<void> read_stops(const json& value, std::vector<std::string>& out) {
  const json list = value.is_string() ? json::array({value}) : value;
  const std::string expected = "a text or a list of at most " + std::to_string(wire::kStopsMax) +
                               ", each of 1 to " + std::to_string(wire::kStopBytesMax) + " bytes";
  if (!list.is_array() || list.size() > wire::kStopsMax) return wrong_parameter("stop", expected);
  for (const json& one : list) {
    if (!one.is_string()) return wrong_parameter("stop", expected);
    const auto& text = one.get_ref<const std::string&>();
    if (text.empty() || text.size() > wire::kStopBytesMax) {
      return wrong_parameter("stop", expected);
    }
    out.push_back(text);
  }
  return {};
}

Result<void> read_max_tokens(const json& value, std::optional<std::int64_t>& out) {
  const bool whole = value.is_number_integer();
  const std::int64_t tokens = whole ? value.get<std::int64_t>() : 0;
  if (!whole || tokens < wire::kMaxTokens.low || tokens > wire::kMaxTokens.high) {
    return wrong_parameter("max_tokens", std::to_string(wire::kMaxTokens.low) + " to " +
                                             std::to_string(wire::kMaxTokens.high));
  }
  out = tokens;
  return {};
}

Result<void> read_parameter(const std::string& name, const json& value, Profile& out, json& extra) {
  if (name == "stop") return read_stops(value, out.options.stops);
  if (name == "max_tokens") return read_max_tokens(value, out.options.max_tokens);
  const Parameter* parameter = sampling::find_parameter(name);
  // Log-probabilities are what a request is answered with, no way to sample.
  if (parameter == nullptr || (parameter->own_reader && name != "seed")) {
    return invalid("parameters." + name +
                   ": is none of a profile; expected stop, max_tokens, seed or a sampling parameter"
                   " (docs/use/sampling.md)");
  }
  if (name == "seed") out.options.seed_given = true;
  return std::visit(ParameterReader(*parameter, value, out.options.sampling, extra),
                    parameter->member);
}

Result<void> read_parameters(const json& object, Profile& out) {
  if (!object.is_object()) return invalid("parameters: expected an object of names to values");
  json extra = json::object();
  out.options.given.emplace();
  for (const auto& [name, value] : object.items()) {
    HOLDFAST_CHECKED(read_parameter(name, value, out, extra));
    out.options.given->push_back(name);
  }
  if (!extra.empty()) out.options.sampling.extra = dump(extra);
  return {};
}

Result<void> read_messages(const json& value, Profile& out) {
  json list = value;
  if (!list.is_array() || list.size() > kMessagesMax) {
    return invalid("messages: expected a list of at most " + std::to_string(kMessagesMax));
  }
  const auto open = [](std::string_view text) -> Result<json> {
    return try_parse_json<json>(text, kBodyLimits);
  };
  if (const auto fault = chat::normalize_messages(list, open)) {
    return invalid(fault->where + ": " + fault->what);
  }
  out.messages_json = dump(list);
  return {};
}

Result<void> read_text(std::string_view name, const json& value, std::string& out) {
  if (!value.is_string()) return invalid(std::string(name) + ": expected a text");
  out = value.get<std::string>();
  return {};
}

Result<void> read_member(const std::string& name, const json& value, Profile& out) {
  if (name == "template") return read_text(name, value, out.chat_template);
  if (name == "system") return read_text(name, value, out.system);
  if (name == "license") return read_text(name, value, out.license);
  if (name == "parameters") return read_parameters(value, out);
  if (name == "messages") return read_messages(value, out);
  return invalid(name + ": is not known; expected template, system, messages, parameters, license");
}

bool is_empty(const json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

/// The options that a request has set itself.
class Given {
 public:
  Given(const wire::GenerationOptions& options, const json& extra)
      : options_(options), extra_(extra) {}

  bool has(const std::string& name) const {
    if (options_.given) return std::ranges::find(*options_.given, name) != options_.given->end();
    if (name == "stop") return !options_.stops.empty();
    if (name == "max_tokens") return options_.max_tokens.has_value();
    if (name == "seed") return options_.seed_given;
    return extra_.contains(name) || differs(name);
  }

 private:
  bool differs(const std::string& name) const {
    bool other = false;
    const wire::Sampling defaults;
    sampling::visit_plain(*sampling::find_parameter(name), [&](auto member) {
      other = options_.sampling.*member != defaults.*member;
    });
    return other;
  }

  const wire::GenerationOptions& options_;
  const json& extra_;
};

/// The options that are no plain ones; no object if the text is none.
json extra_of(const wire::GenerationOptions& options) {
  const std::string& extra = options.sampling.extra;
  return extra.empty() ? json::object() : try_parse_json<json>(extra);
}

bool finishes_grammar(const json& extra) {
  const auto grammar = extra.find("grammar");
  return grammar != extra.end() && grammar->is_object() &&
         grammar->value("finish", json(false)) == true;
}

/// Sets one option to that of the profile.
void give_option(const Profile& profile, const std::string& name, const json& defaults,
                 wire::GenerationOptions& options, json& extra) {
  const wire::GenerationOptions& from = profile.options;
  if (name == "stop") {
    options.stops = from.stops;
  } else if (name == "max_tokens") {
    options.max_tokens.reset();
    options.most_tokens = from.max_tokens;
  } else if (defaults.contains(name)) {
    extra[name] = defaults[name];
  } else {
    if (name == "seed") options.seed_given = true;
    sampling::visit_plain(*sampling::find_parameter(name),
                          [&](auto member) { options.sampling.*member = from.sampling.*member; });
  }
}

}  // namespace

Result<Profile> read_profile(std::string_view text) {
  Profile out;
  if (text.empty()) return out;
  if (text.size() > kBytesMax) {
    return invalid(std::to_string(text.size()) + " bytes; expected at most " +
                   std::to_string(kBytesMax));
  }
  const json object = try_parse_json<json>(text, kBodyLimits);
  if (!object.is_object()) return invalid("expected a JSON object");
  for (const auto& [name, value] : object.items()) {
    HOLDFAST_CHECKED(read_member(name, value, out));
    out.empty = false;
  }
  return out;
}

Result<std::string> checked_profile(const json& object) {
  if (object.is_null()) return std::string();
  if (!object.is_object()) return invalid("expected a JSON object");
  json members = json::object();
  for (const auto& [name, value] : object.items()) {
    if (!is_empty(value)) members[name] = value;
  }
  if (members.empty()) return std::string();
  std::string text = dump(members);
  HOLDFAST_CHECKED(read_profile(text));
  return text;
}

void give_options(const Profile& profile, wire::GenerationOptions& options) {
  if (!profile.options.given) return;
  json extra = extra_of(options);
  if (!extra.is_object()) return;           // is refused where it is read
  if (extra.contains("embedding")) return;  // a vector is not sampled
  const json defaults = extra_of(profile.options);
  const wire::GenerationOptions original = options;
  const json original_extra = extra;
  const Given given(original, original_extra);
  const bool finishes = finishes_grammar(extra);
  for (const std::string& name : *profile.options.given) {
    if (given.has(name) || (finishes && name.starts_with("mirostat"))) continue;
    give_option(profile, name, defaults, options, extra);
  }
  options.sampling.extra = extra.empty() ? std::string() : dump(extra);
}

AddedMessages add_messages(const Profile& profile, json& messages) {
  const auto is_system = [](const json& message) {
    return message["role"] == "system" || message["role"] == "developer";
  };
  const bool has_system = std::any_of(messages.begin(), messages.end(), is_system);
  json added = json::array();
  AddedMessages out;
  if (!profile.system.empty() && !has_system) {
    added.push_back({{"role", "system"}, {"content", profile.system}});
  } else {
    const auto first = std::find_if_not(messages.begin(), messages.end(), is_system);
    out.at = static_cast<std::size_t>(first - messages.begin());
  }
  if (!profile.messages_json.empty()) {
    for (json& message : try_parse_json<json>(profile.messages_json)) {
      added.push_back(std::move(message));
    }
  }
  out.count = added.size();
  messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(out.at), added.begin(),
                  added.end());
  return out;
}

}  // namespace holdfast::profile
