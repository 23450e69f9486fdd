#include "shared/chat/tools.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace holdfast::chat {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kNameBytes = 256;
constexpr std::size_t kTypeBytes = 64;

std::string text_member(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// Returns the type of a tool; a tool without one is a function.
std::string type_of(const json& tool) {
  const std::string type = text_member(tool, "type");
  // Anthropic's type "custom" is a function; OpenAI's custom tools have no parameters.
  const bool function = type == "custom" && tool.contains("input_schema");
  return type.empty() || function ? "function" : type;
}

class ToolReader {
 public:
  explicit ToolReader(std::vector<std::string>* left_out) : left_out_(left_out) {}

  std::optional<MessageFault> read(const json& tools, const std::string& list) {
    if (!tools.is_array()) return MessageFault{list, "must be an array of tools"};
    for (std::size_t i = 0; i < tools.size(); ++i) {
      const std::string where = list + "[" + std::to_string(i) + "]";
      if (auto fault = read_tool(tools[i], where)) return fault;
    }
    return std::nullopt;
  }
  json found = json::array();

 private:
  std::optional<MessageFault> read_tool(const json& tool, const std::string& where) {
    if (!tool.is_object()) return MessageFault{where, "must be an object"};
    const std::string type = type_of(tool);
    if (type == "function") return read_function(tool, where);
    if (type == "namespace" && tool.contains("tools")) return read(tool["tools"], where + ".tools");
    if (left_out_ != nullptr) left_out_->push_back(where + ":" + type.substr(0, kTypeBytes));
    return std::nullopt;
  }

  /// Returns the members of a function without nulls, under the names of today.
  static json members_of(const json& tool, bool nested) {
    json function = json::object();
    for (const auto& [name, value] : (nested ? tool["function"] : tool).items()) {
      const bool of_tool = !nested && name == "type";
      if (!value.is_null() && !of_tool)
        function[name == "input_schema" ? "parameters" : name] = value;
    }
    return function;
  }

  static std::optional<MessageFault> check_function(const json& function, const std::string& path) {
    const std::string name = text_member(function, "name");
    if (name.empty() || name.size() > kNameBytes) {
      return MessageFault{path + ".name",
                          "is required: a string of 1 to " + std::to_string(kNameBytes) + " bytes"};
    }
    if (function.contains("parameters") && !function["parameters"].is_object()) {
      return MessageFault{path + ".parameters", "must be a JSON schema, an object"};
    }
    return std::nullopt;
  }

  std::optional<MessageFault> read_function(const json& tool, const std::string& where) {
    const bool nested = tool.contains("function") && !tool["function"].is_null();
    const std::string path = nested ? where + ".function" : where;
    if (nested && !tool["function"].is_object()) return MessageFault{path, "must be an object"};
    json function = members_of(tool, nested);
    if (auto fault = check_function(function, path)) return fault;
    const std::string name = text_member(function, "name");
    if (names_.contains(name) && where.find(".tools[") != std::string::npos) {
      // Two namespaces may have a function of one name; calls are distinguished by that name alone.
      if (left_out_ != nullptr) left_out_->push_back(where + ":" + name);
      return std::nullopt;
    }
    if (!names_.insert(name).second) {
      return MessageFault{path + ".name", "\"" + name + "\" is there twice"};
    }
    found.push_back({{"type", "function"}, {"function", std::move(function)}});
    return std::nullopt;
  }

  std::vector<std::string>* const left_out_;
  std::set<std::string> names_;
};

}  // namespace

std::optional<MessageFault> normalize_tools(json& tools, std::vector<std::string>* left_out,
                                            const std::string& list) {
  ToolReader reader(left_out);
  if (auto fault = reader.read(tools, list)) return fault;
  tools = std::move(reader.found);
  return std::nullopt;
}

}  // namespace holdfast::chat
