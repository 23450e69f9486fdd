#include "control/gateway/shape.h"

#include <nlohmann/json.hpp>

namespace holdfast::gateway {

using json = nlohmann::json;

std::string encode_shape(const Shape& shape) {
  json out = {{"api", shape.api == Api::kChat ? "chat" : "completions"},
              {"stream", shape.stream},
              {"usage", shape.include_usage},
              {"choices", shape.choices},
              {"hash", shape.body_hash}};
  if (!shape.user.empty()) out["user"] = shape.user;
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
  return shape;
}

}  // namespace holdfast::gateway
