#include "control/gateway/message_body.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/gateway/json_fields.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

/// A text, or blocks of text.
bool read_text(Fields& fields, const std::string& name, const json& content, std::string* out) {
  if (content.is_string()) {
    *out += content.get_ref<const std::string&>();
    return true;
  }
  const bool good =
      content.is_array() && std::all_of(content.begin(), content.end(), [](const json& block) {
        return block.is_object() && block.value("type", json()) == "text" &&
               block.value("text", json()).is_string();
      });
  if (!good) {
    fields.fail(name, "must be a text or a list of text blocks");
    return false;
  }
  for (const json& block : content) *out += block["text"].get_ref<const std::string&>();
  return true;
}

/// Blocks of one message: text and calls stay together, results of tools are messages of their own.
bool read_blocks(Fields& fields, const std::string& name, const std::string& role,
                 const json& blocks, json* messages) {
  std::string text;
  json calls = json::array();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const json& block = blocks[i];
    const std::string at = name + "[" + std::to_string(i) + "]";
    const json kind = block.is_object() ? block.value("type", json()) : json();
    if (kind == "text" && block.value("text", json()).is_string()) {
      text += block["text"].get_ref<const std::string&>();
    } else if (kind == "tool_use" && role == "assistant") {
      calls.push_back({{"id", block.value("id", json(""))},
                       {"type", "function"},
                       {"function",
                        {{"name", block.value("name", json(""))},
                         {"arguments", block.value("input", json::object()).dump()}}}});
    } else if (kind == "tool_result" && role == "user") {
      std::string result;
      if (block.contains("content") &&
          !read_text(fields, at + ".content", block["content"], &result)) {
        return false;
      }
      messages->push_back({{"role", "tool"},
                           {"tool_call_id", block.value("tool_use_id", json(""))},
                           {"content", result}});
    } else if (kind != "thinking" && kind != "redacted_thinking") {
      fields.fail(at + ".type", "must be text, tool_use or tool_result here");
      return false;
    }
  }
  if (!calls.empty()) {
    messages->push_back({{"role", role},
                         {"content", text.empty() ? json() : json(text)},
                         {"tool_calls", std::move(calls)}});
  } else if (!text.empty()) {
    messages->push_back({{"role", role}, {"content", text}});
  }
  return true;
}

void read_messages(Fields& fields, json* chat) {
  json messages = json::array();
  if (const json* system = fields.take("system")) {
    std::string text;
    if (!read_text(fields, "system", *system, &text)) return;
    messages.push_back({{"role", "system"}, {"content", text}});
  }
  const json* given = fields.take("messages");
  if (given == nullptr || !given->is_array() || given->empty()) {
    return fields.fail("messages", "is required: an array of at least one message");
  }
  for (std::size_t i = 0; i < given->size(); ++i) {
    const json& message = (*given)[i];
    const std::string name = "messages[" + std::to_string(i) + "]";
    const json role = message.is_object() ? message.value("role", json()) : json();
    if (role != "user" && role != "assistant") {
      return fields.fail(name + ".role", "must be \"user\" or \"assistant\"");
    }
    const json content = message.value("content", json());
    if (content.is_string()) {
      messages.push_back({{"role", role}, {"content", content}});
    } else if (!content.is_array()) {
      return fields.fail(name + ".content", "must be a text or a list of blocks");
    } else if (!read_blocks(fields, name + ".content", role.get<std::string>(), content,
                            &messages)) {
      return;
    }
  }
  (*chat)["messages"] = std::move(messages);
}

void read_tools(Fields& fields, json* chat) {
  if (const json* tools = fields.take("tools")) {
    if (!tools->is_array()) return fields.fail("tools", "must be an array");
    json list = json::array();
    for (const json& tool : *tools) {
      if (!tool.is_object() || !tool.value("name", json()).is_string()) {
        return fields.fail("tools", "must be objects with a name and an input_schema");
      }
      json function = {{"name", tool["name"]}};
      if (tool.contains("description")) function["description"] = tool["description"];
      if (tool.contains("input_schema")) function["parameters"] = tool["input_schema"];
      list.push_back({{"type", "function"}, {"function", std::move(function)}});
    }
    (*chat)["tools"] = std::move(list);
  }
  const json* choice = fields.take("tool_choice");
  if (choice == nullptr) return;
  const json kind = choice->is_object() ? choice->value("type", json()) : json();
  if (kind == "auto" || kind == "none") {
    (*chat)["tool_choice"] = kind;
  } else if (kind == "any") {
    (*chat)["tool_choice"] = "required";
  } else if (kind == "tool") {
    (*chat)["tool_choice"] = {{"type", "function"},
                              {"function", {{"name", choice->value("name", json())}}}};
  } else {
    return fields.fail("tool_choice", "must have the type auto, any, tool or none");
  }
  if (choice->value("disable_parallel_tool_use", json()) == true) {
    (*chat)["parallel_tool_calls"] = false;
  }
}

}  // namespace

bool parse_message(const json& body, const ParamLimits& limits, Generation* out,
                   FieldError* error) {
  Fields fields(body);
  json chat = json::object();
  read_messages(fields, &chat);
  read_tools(fields, &chat);
  std::int64_t tokens = 0;
  if (!fields.integer("max_tokens", 1, std::int64_t{1} << 40, &tokens)) {
    fields.fail("max_tokens", "is required: a positive number");
  }
  chat["max_tokens"] = tokens;
  if (const json* stops = fields.take("stop_sequences")) chat["stop"] = *stops;
  if (const json* metadata = fields.take("metadata"); metadata && metadata->is_object()) {
    if (metadata->contains("user_id")) chat["user"] = (*metadata)["user_id"];
  }
  for (const std::string& name : fields.unknown()) chat[name] = body[name];
  if (fields.error()) {
    *error = *fields.error();
    return false;
  }
  out->budget.take(body);
  if (!fields.check("messages", out->budget.make(chat))) {
    *error = *fields.error();
    return false;
  }
  if (!parse_chat(chat, limits, out, error)) return false;
  out->shape.api = Api::kMessages;
  return true;
}

}  // namespace holdfast::gateway
