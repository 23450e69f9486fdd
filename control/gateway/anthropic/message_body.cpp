#include "control/gateway/anthropic/message_body.h"

#include <cctype>
#include <nlohmann/json.hpp>

#include "control/gateway/common/tool_result.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

std::string text_member(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

void add_line(std::string* text, const std::string& line) {
  if (!text->empty() && !line.empty()) *text += "\n";
  *text += line;
}

bool text_of_document(const json& block, std::string* out) {
  const bool text = block.contains("source") && block["source"].is_object() &&
                    text_member(block["source"], "type") == "text";
  if (!text) return false;
  add_line(out, text_member(block, "title"));
  add_line(out, text_member(block["source"], "data"));
  return true;
}

bool text_of_search_result(const json& block, std::string* out) {
  if (!block.contains("content") || !block["content"].is_array()) return false;
  add_line(out, text_member(block, "title"));
  for (const json& part : block["content"]) {
    if (part.is_object()) add_line(out, text_member(part, "text"));
  }
  return true;
}

/// Takes the text of a block. Returns false if the block has none.
bool text_of_block(const json& block, std::string* out) {
  const std::string kind = text_member(block, "type");
  if (kind == "document") return text_of_document(block, out);
  if (kind == "search_result") return text_of_search_result(block, out);
  if (kind == "text") {
    add_line(out, text_member(block, "text"));
  } else if (kind == "tool_reference") {
    add_line(out, text_member(block, "tool_name"));
  } else {
    return false;
  }
  return true;
}

std::string kind_of(const json& block) {
  const std::string kind = block.is_object() ? text_member(block, "type") : std::string();
  return "\"" + kind.substr(0, 64) + "\"";
}

/// Reads a text, or blocks of text as lines.
bool read_text(Fields& fields, const std::string& name, const json& content, std::string* out) {
  if (content.is_null()) return true;
  if (content.is_string()) {
    *out += content.get_ref<const std::string&>();
    return true;
  }
  if (!content.is_array()) {
    fields.fail(name, "must be a text or a list of text blocks");
    return false;
  }
  for (std::size_t i = 0; i < content.size(); ++i) {
    if (content[i].is_object() && text_of_block(content[i], out)) continue;
    fields.fail(name + "[" + std::to_string(i) + "].type",
                kind_of(content[i]) + " is not read by this server: blocks must be text");
    return false;
  }
  return true;
}

/// True for calls and results of the provider's own tools: this server has none.
bool is_of_server_tool(const std::string& kind) {
  return kind == "server_tool_use" || kind == "mcp_tool_use" || kind == "mcp_tool_result" ||
         kind.ends_with("_tool_result");
}

/// Splits one message of the client into several: results of tools are messages of their own.
struct Blocks {
  Fields& fields;
  json& chat;  // names what is left out
  json& messages;
  std::string role;
  std::string text, thinking;
  json calls = json::array();

  bool add(const std::string& at, const json& block) {
    if (!block.is_object()) return refuse(at, block);
    if (text_of_block(block, &text)) return true;
    const std::string kind = text_member(block, "type");
    if (kind == "tool_use" && role == "assistant") {
      add_call(block);
    } else if (kind == "tool_result" && role == "user") {
      return add_result(at + ".content", block);
    } else if (kind == "thinking") {
      add_line(&thinking, text_member(block, "thinking"));
    } else if (is_of_server_tool(kind)) {
      chat[at + ":" + kind] = true;
    } else {
      return kind == "redacted_thinking" || refuse(at, block);
    }
    return true;
  }
  bool refuse(const std::string& at, const json& block) {
    fields.fail(at + ".type", kind_of(block) + " is not read by this server: " +
                                  "blocks here may be text, thinking, tool_use or tool_result");
    return false;
  }
  void add_call(const json& block) {
    calls.push_back(
        {{"id", text_member(block, "id")},
         {"type", "function"},
         {"function",
          {{"name", block.value("name", json(""))}, {"arguments", block.value("input", json())}}}});
  }
  bool add_result(const std::string& name, const json& block) {
    std::string result;
    const json content = without_pictures(name, block.value("content", json()), &chat);
    if (!read_text(fields, name, content, &result)) return false;
    end();  // ends the message before it
    messages.push_back({{"role", "tool"},
                        {"tool_call_id", text_member(block, "tool_use_id")},
                        {"content", result}});
    return true;
  }

  /// Adds the message of the blocks so far.
  void end() {
    if (text.empty() && calls.empty() && thinking.empty()) return;
    json message = {{"role", role}, {"content", text}};
    if (!calls.empty()) message["tool_calls"] = calls;
    if (!thinking.empty()) message["reasoning_content"] = thinking;
    messages.push_back(std::move(message));
    text.clear();
    thinking.clear();
    calls = json::array();
  }
};

bool read_blocks(Fields& fields, const std::string& name, const std::string& role,
                 const json& blocks, json* chat, json* messages) {
  Blocks all{fields, *chat, *messages, role, {}, {}, json::array()};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!all.add(name + "[" + std::to_string(i) + "]", blocks[i])) return false;
  }
  all.end();
  return true;
}

/// Removes a program's line about billing from the system prompt. It is no instruction and differs
/// from request to request: with it no two prompts would have a common prefix.
json without_attribution(const json& system, json* chat) {
  if (!system.is_array()) return system;
  json remaining = json::array();
  for (std::size_t i = 0; i < system.size(); ++i) {
    const bool attribution =
        system[i].is_object() &&
        text_member(system[i], "text").starts_with("x-anthropic-billing-header:");
    if (!attribution) {
      remaining.push_back(system[i]);
    } else {
      (*chat)["system[" + std::to_string(i) + "]:attribution"] = true;
    }
  }
  return remaining;
}

/// Makes a last message of the assistant, number `at`, the beginning of the answer.
void read_prefill(Fields& fields, std::size_t at, json* chat) {
  json& messages = (*chat)["messages"];
  if (messages.empty() || messages.back()["role"] != "assistant") return;
  const json& last = messages.back();
  if (last.contains("tool_calls")) return;
  const std::string text = text_member(last, "content");
  if (text.empty() && !last.contains("reasoning_content")) {
    if (messages.size() > 1) messages.erase(messages.size() - 1);
    return;
  }
  if (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    return fields.fail("messages[" + std::to_string(at) + "].content",
                       "is the beginning of the answer: final assistant content cannot end with "
                       "trailing whitespace");
  }
  (*chat)["continue_final_message"] = true;
}

/// Adds the messages that a message of the body stands for.
bool read_message(Fields& fields, const std::string& name, const json& message, json* chat,
                  json* messages) {
  const json role = message.is_object() ? message.value("role", json()) : json();
  if (role != "user" && role != "assistant" && role != "system") {
    fields.fail(name + ".role", "must be \"user\" or \"assistant\"");
    return false;
  }
  const json content = message.value("content", json());
  if (content.is_string()) {
    messages->push_back({{"role", role}, {"content", content}});
    return true;
  }
  if (!content.is_array()) {
    fields.fail(name + ".content", "must be a text or a list of blocks");
    return false;
  }
  return read_blocks(fields, name + ".content", role.get<std::string>(), content, chat, messages);
}

void read_messages(Fields& fields, json* chat) {
  json messages = json::array();
  if (const json* system = fields.take("system")) {
    std::string text;
    if (!read_text(fields, "system", without_attribution(*system, chat), &text)) return;
    messages.push_back({{"role", "system"}, {"content", text}});
  }
  const json* given = fields.take("messages");
  if (given == nullptr || !given->is_array() || given->empty()) {
    return fields.fail("messages", "is required: an array of at least one message");
  }
  for (std::size_t i = 0; i < given->size(); ++i) {
    const std::string name = "messages[" + std::to_string(i) + "]";
    if (!read_message(fields, name, (*given)[i], chat, &messages)) return;
  }
  (*chat)["messages"] = std::move(messages);
  if (given->back()["role"] == "assistant") read_prefill(fields, given->size() - 1, chat);
}

/// Returns the schema of a tool that a client runs and that Anthropic's models know without one;
/// null for all others.
json builtin_tool_schema(const std::string& type) {
  const char* schema = nullptr;
  if (type.starts_with("bash_")) {
    schema = R"({"type":"object","properties":{"command":{"type":"string"},)"
             R"("restart":{"type":"boolean"}}})";
  } else if (type.starts_with("text_editor_")) {
    schema = R"({"type":"object","properties":{"command":{"type":"string","enum":["view","create",)"
             R"("str_replace","insert"]},"path":{"type":"string"},"file_text":{"type":"string"},)"
             R"("old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":)"
             R"({"type":"integer"},"insert_text":{"type":"string"},"view_range":{"type":"array",)"
             R"("items":{"type":"integer"}}},"required":["command","path"]})";
  }
  return schema == nullptr ? json() : try_parse_json<json>(schema);
}

/// Returns the tool without members of programs' own, which would change the prompt.
json plain_tool(const json& tool) {
  if (!tool.is_object()) return tool;
  json plain = json::object();
  for (const char* name : {"type", "name", "description", "input_schema"}) {
    if (tool.contains(name)) plain[name] = tool[name];
  }
  json schema =
      tool.contains("input_schema") ? json() : builtin_tool_schema(text_member(tool, "type"));
  if (schema.is_object()) {
    plain["type"] = "custom";
    plain["input_schema"] = std::move(schema);
  }
  return plain;
}

void read_tool_choice(Fields& fields, json* chat) {
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

void read_tools(Fields& fields, json* chat) {
  if (const json* tools = fields.take("tools")) {
    if (!tools->is_array()) return fields.fail("tools", "must be an array");
    json list = json::array();
    for (const json& tool : *tools) list.push_back(plain_tool(tool));
    (*chat)["tools"] = std::move(list);
  }
  read_tool_choice(fields, chat);
}

void read_user(Fields& fields, json* chat) {
  const json* metadata = fields.take("metadata");
  if (metadata == nullptr || !metadata->is_object() || !metadata->contains("user_id")) return;
  (*chat)["user"] = (*metadata)["user_id"];
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
  read_user(fields, &chat);
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
