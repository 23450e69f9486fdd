#include "shared/profile/ollama.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace holdfast::profile {
namespace {

using json = nlohmann::ordered_json;

/// One of Ollama's options, and ours.
struct Option {
  std::string_view name;
  std::string_view ours;
};
constexpr Option kOptions[] = {
    {"temperature", "temperature"},
    {"top_k", "top_k"},
    {"top_p", "top_p"},
    {"min_p", "min_p"},
    {"typical_p", "typical_p"},
    {"repeat_penalty", "repetition_penalty"},
    {"repeat_last_n", "repeat_last_n"},
    {"presence_penalty", "presence_penalty"},
    {"frequency_penalty", "frequency_penalty"},
    {"mirostat", "mirostat"},
    {"mirostat_tau", "mirostat_tau"},
    {"mirostat_eta", "mirostat_eta"},
    {"stop", "stop"},
    {"seed", "seed"},
};
constexpr std::string_view kTokens = "num_predict";
constexpr std::string_view kContext = "num_ctx";
constexpr std::int64_t kContextMax = std::int64_t{1} << 31;

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Adds one parameter, if a profile may have it.
void add_parameter(const std::string& name, std::string_view ours, const json& value,
                   json& parameters, OllamaParameters& out) {
  json one = json::object();
  one[std::string(ours)] = value;
  const auto good = checked_profile(json{{"parameters", one}});
  if (good) {
    parameters.update(one);
  } else {
    out.wrong.push_back(name + ": " + good.error().what);
  }
}

/// -1 and -2 are "as many as fit", which is what a request without a bound gets.
void add_tokens(const json& value, json& parameters, OllamaParameters& out) {
  if (value == -1 || value == -2) return;
  add_parameter(std::string(kTokens), "max_tokens", value, parameters, out);
}

void read_context(const json& value, OllamaParameters& out) {
  const bool whole = value.is_number_integer();
  const std::int64_t tokens = whole ? value.get<std::int64_t>() : 0;
  if (whole && tokens > 0 && tokens <= kContextMax) {
    out.context = tokens;
  } else {
    out.wrong.push_back("num_ctx: expected a whole number from 1 to " +
                        std::to_string(kContextMax));
  }
}

/// Calls `line` with Ollama's name and the text of each value; a stop is a line each.
template <class Line>
void each_parameter(const json& profile, const Line& line) {
  const auto parameters = profile.find("parameters");
  if (parameters == profile.end() || !parameters->is_object()) return;
  for (const auto& [name, value] : parameters->items()) {
    const json list = name == "stop" && value.is_array() ? value : json::array({value});
    for (const json& one : list) line(std::string(ollama_option(name)), dump(one));
  }
}

std::string quoted(const std::string& text) {
  return "\"\"\"" + text + "\"\"\"";
}

std::string text_of(const json& profile, const char* name) {
  const auto member = profile.find(name);
  return member != profile.end() && member->is_string() ? member->get<std::string>() : "";
}

std::string messages_text(const json& profile) {
  std::string out;
  for (const json& message : profile.value("messages", json::array())) {
    out += "MESSAGE " + text_of(message, "role") + " " + quoted(text_of(message, "content")) + "\n";
  }
  return out;
}

}  // namespace

std::optional<std::string_view> our_option(std::string_view ollama_name) {
  const auto* found = std::ranges::find(kOptions, ollama_name, &Option::name);
  if (found == std::end(kOptions)) return std::nullopt;
  return found->ours;
}

std::string_view ollama_option(std::string_view our_name) {
  if (our_name == "max_tokens") return kTokens;
  const auto* found = std::ranges::find(kOptions, our_name, &Option::ours);
  return found == std::end(kOptions) ? our_name : found->name;
}

Result<OllamaParameters> read_ollama_parameters(const json& object) {
  OllamaParameters out;
  if (object.is_null()) return out;
  if (!object.is_object()) {
    return Error{Errc::kInvalidRequest, "parameters: expected an object of names to values"};
  }
  json parameters = json::object();
  for (const auto& [name, value] : object.items()) {
    if (value.is_null()) continue;
    if (name == kTokens) {
      add_tokens(value, parameters, out);
    } else if (name == kContext) {
      read_context(value, out);
    } else if (const auto ours = our_option(name)) {
      add_parameter(name, *ours, value, parameters, out);
    } else {
      out.left_out.push_back(name);
    }
  }
  if (!parameters.empty()) out.json = dump(parameters);
  return out;
}

Result<std::string> read_ollama_license(const json& value) {
  std::string out;
  for (const json& one : value.is_array() ? value : json::array({value})) {
    if (!one.is_string()) {
      return Error{Errc::kInvalidRequest, "license: expected a text, or a list of texts"};
    }
    if (!out.empty()) out += "\n\n";
    out += one.get<std::string>();
  }
  return out;
}

std::string ollama_parameters_text(const json& profile) {
  constexpr std::size_t kNameWidth = 30;
  std::string out;
  each_parameter(profile, [&](std::string name, const std::string& value) {
    name.resize(std::max(kNameWidth, name.size()), ' ');
    if (!out.empty()) out += "\n";
    out += name + " " + value;
  });
  return out;
}

std::string modelfile_text(std::string_view from, const json& profile, bool whole) {
  std::string out = "FROM " + std::string(from) + "\n";
  if (const auto text = text_of(profile, "template"); !text.empty()) {
    out += "TEMPLATE " + quoted(text) + "\n";
  }
  const auto system = text_of(profile, "system");
  if (whole && !system.empty()) out += "SYSTEM " + quoted(system) + "\n";
  each_parameter(profile, [&](const std::string& name, const std::string& value) {
    out += "PARAMETER " + name + " " + value + "\n";
  });
  if (whole) out += messages_text(profile);
  if (const auto text = text_of(profile, "license"); !text.empty()) {
    out += "LICENSE " + quoted(text) + "\n";
  }
  return out;
}

}  // namespace holdfast::profile
