#include "control/gateway/common/tool_result.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace holdfast::gateway {

namespace {

using json = nlohmann::ordered_json;

/// Returns the name of a picture or file for the model; empty for all other blocks, also for
/// documents that are text.
std::string_view name_of_kind(const json& block) {
  if (!block.is_object()) return "";
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"image", "image"},     {"input_image", "image"}, {"image_url", "image"},
      {"input_file", "file"}, {"file", "file"},
  };
  const json kind = block.value("type", json());
  for (const auto& [type, name] : kNames) {
    if (kind == type) return name;
  }
  if (kind != "document") return "";
  const json source = block.value("source", json::object());
  const bool text = source.is_object() && source.value("type", json()) == "text";
  return text ? "" : "document";
}

}  // namespace

json without_pictures(const std::string& name, const json& content, json* left_out) {
  if (!content.is_array()) return content;
  json blocks = json::array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string kind(name_of_kind(content[i]));
    if (kind.empty()) {
      blocks.push_back(content[i]);
      continue;
    }
    (*left_out)[name + "[" + std::to_string(i) + "]:" + kind] = true;
    blocks.push_back(
        {{"type", "text"}, {"text", "[" + kind + " left out: it cannot be read here]"}});
  }
  return blocks;
}

}  // namespace holdfast::gateway
