#include "control/gateway/shape.h"

#include <nlohmann/json.hpp>

namespace holdfast::gateway {

using json = nlohmann::json;

std::optional<chat::OutputOptions> parse_options(const Shape& shape) {
  const chat::OutputKind kind = chat::read_output(shape.output);
  chat::OutputOptions options;
  options.format = kind.format;
  options.tools = shape.tools && kind.format != chat::ToolFormat::kNone;
  options.reasoning = kind.reasoning;
  options.starts_in_reasoning = kind.opens_reasoning;
  const bool parses =
      options.tools || options.reasoning || kind.format == chat::ToolFormat::kHarmony;
  if (shape.api != Api::kChat || !parses) return std::nullopt;
  return options;
}

std::string encode_shape(const Shape& shape) {
  json out = {{"api", shape.api == Api::kChat ? "chat" : "completions"},
              {"stream", shape.stream},
              {"usage", shape.include_usage},
              {"choices", shape.choices},
              {"hash", shape.body_hash}};
  if (!shape.user.empty()) out["user"] = shape.user;
  if (!shape.output.empty()) out["output"] = shape.output;
  if (shape.tools) out["tools"] = true;
  return json{{"gateway", out}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

Shape decode_shape(const std::string& meta) {
  Shape shape;
  const json all = json::parse(meta, nullptr, false);
  if (!all.is_object() || !all.contains("gateway") || !all["gateway"].is_object()) return shape;
  const json& in = all["gateway"];
  const auto flag = [&in](const char* name) {
    const auto found = in.find(name);
    return found != in.end() && found->is_boolean() && found->get<bool>();
  };
  const auto text = [&in](const char* name) {
    const auto found = in.find(name);
    return found != in.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  shape.api = text("api") == "chat" ? Api::kChat : Api::kCompletions;
  shape.stream = flag("stream");
  shape.include_usage = flag("usage");
  const auto choices = in.find("choices");
  if (choices != in.end() && choices->is_number_integer()) shape.choices = choices->get<int>();
  shape.body_hash = text("hash");
  shape.user = text("user");
  shape.output = text("output");
  shape.tools = flag("tools");
  return shape;
}

}  // namespace holdfast::gateway
