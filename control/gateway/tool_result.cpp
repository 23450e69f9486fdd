#include "control/gateway/tool_result.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace holdfast::gateway {

namespace {

using json = nlohmann::ordered_json;

/// What a picture or a file is called to the model; empty for all else, texts as documents too.
std::string_view name_of_kind(const json& block) {
  if (!block.is_object()) return "";
  const json kind = block.value("type", json());
  if (kind == "image" || kind == "input_image" || kind == "image_url") return "image";
  if (kind == "input_file" || kind == "file") return "file";
  if (kind != "document") return "";
  const json source = block.value("source", json::object());
  const bool text = source.is_object() && source.value("type", json()) == "text";
  return text ? "" : "document";
}

}  // namespace

json without_pictures(const std::string& name, const json& content, json* left_out) {
  if (!content.is_array()) return content;
  json kept = json::array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string kind(name_of_kind(content[i]));
    if (kind.empty()) {
      kept.push_back(content[i]);
      continue;
    }
    (*left_out)[name + "[" + std::to_string(i) + "]:" + kind] = true;
    kept.push_back({{"type", "text"}, {"text", "[" + kind + " left out: it cannot be read here]"}});
  }
  return kept;
}

}  // namespace holdfast::gateway
