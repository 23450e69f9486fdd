#include "control/gateway/responses/response_body.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "control/gateway/common/render.h"
#include "control/gateway/common/tool_result.h"
#include "control/gateway/responses/compaction.h"
#include "control/gateway/responses/conversation.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

/// A member that the object repeats, with its value when the client sent none.
struct Echo {
  const char* name;
  const char* otherwise;  // JSON
};
constexpr std::array<Echo, 15> kEchoes = {{{"instructions", "null"},
                                           {"max_output_tokens", "null"},
                                           {"metadata", "{}"},
                                           {"parallel_tool_calls", "true"},
                                           {"previous_response_id", "null"},
                                           {"reasoning", R"({"effort":null,"summary":null})"},
                                           {"background", "false"},
                                           {"store", "true"},
                                           {"temperature", "1.0"},
                                           {"text", R"({"format":{"type":"text"}})"},
                                           {"tool_choice", R"("auto")"},
                                           {"tools", "[]"},
                                           {"top_p", "1.0"},
                                           {"truncation", R"("disabled")"},
                                           {"user", "null"}}};

/// The text of a part; something else if it is no part of text.
json text_of_part(const json& part) {
  if (!part.is_object()) return {};
  const json kind = part.value("type", json());
  if (kind == "refusal") return part.value("refusal", json());
  const bool recognised = kind == "input_text" || kind == "output_text" || kind == "text";
  return recognised ? part.value("text", json()) : json();
}

/// Reads the text of a message or of a tool's result; its parts become lines.
bool read_text(Fields& fields, const std::string& name, const json& content, std::string* out) {
  if (content.is_null()) return true;
  if (content.is_string()) {
    *out = content.get<std::string>();
    return true;
  }
  if (!content.is_array()) {
    fields.fail(name, "must be a text or a list of text parts");
    return false;
  }
  for (std::size_t i = 0; i < content.size(); ++i) {
    const json text = text_of_part(content[i]);
    if (!text.is_string()) {
      fields.fail(name + "[" + std::to_string(i) + "]",
                  "must be a part of text: input_text, output_text or refusal");
      return false;
    }
    if (!out->empty()) *out += "\n";
    *out += text.get_ref<const std::string&>();
  }
  return true;
}

std::string text_member(const json& item, const char* name) {
  const json value = item.value(name, json());
  return value.is_string() ? value.get<std::string>() : std::string();
}

/// Adds a call to the message before it, if that is the assistant's: calls in a row, and the text
/// that came with them, are one message.
void add_call(const json& item, const std::string& tool, const json& arguments, json* messages) {
  const bool joins = !messages->empty() && messages->back()["role"] == "assistant";
  if (!joins) messages->push_back({{"role", "assistant"}, {"content", nullptr}});
  json& message = messages->back();
  if (!message.contains("tool_calls")) message["tool_calls"] = json::array();
  message["tool_calls"].push_back({{"id", text_member(item, "call_id")},
                                   {"type", "function"},
                                   {"function", {{"name", tool}, {"arguments", arguments}}}});
}

/// Adds a call of a tool that the client runs itself. Returns false if it is no such item.
bool add_call_item(const json& item, const std::string& kind, json* messages) {
  if (kind == "function_call") {
    add_call(item, text_member(item, "name"), text_member(item, "arguments"), messages);
  } else if (kind == "custom_tool_call") {
    add_call(item, text_member(item, "name"), {{"input", text_member(item, "input")}}, messages);
  } else if (kind == "local_shell_call" || kind == "shell_call") {
    add_call(item, kind.substr(0, kind.size() - 5), item.value("action", json::object()), messages);
  } else {
    return false;
  }
  return true;
}

/// True for calls and results of the provider's own tools: this server has none, and models know
/// only their functions.
bool is_of_hosted_tool(const std::string& kind) {
  constexpr std::array<std::string_view, 8> kKinds = {
      "web_search_call",       "file_search_call", "computer_call",        "image_generation_call",
      "code_interpreter_call", "mcp_call",         "mcp_approval_request", "mcp_list_tools"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

/// Adds the summary that /v1/responses/compact made, as a message.
bool add_summary(Fields& fields, const std::string& name, const json& item, json* messages) {
  const auto summary = unpack_summary(text_member(item, "encrypted_content"));
  if (!summary) {
    fields.fail(
        name + ".encrypted_content",
        "must be as POST /v1/responses/compact of this server gave it, whole and unchanged");
    return false;
  }
  messages->push_back(summary_message(*summary));
  return true;
}

std::string kind_of_item(const json& item) {
  return item.contains("type") ? text_member(item, "type") : "message";
}

bool is_result_of_call(const std::string& kind) {
  return kind == "function_call_output" || kind == "custom_tool_call_output" ||
         kind == "local_shell_call_output" || kind == "shell_call_output";
}

bool add_result(Fields& fields, const std::string& name, const json& item, json* messages,
                json* left_out) {
  std::string text;
  const json output = without_pictures(name + ".output", item.value("output", json()), left_out);
  if (!read_text(fields, name + ".output", output, &text)) return false;
  messages->push_back(
      {{"role", "tool"}, {"tool_call_id", text_member(item, "call_id")}, {"content", text}});
  return true;
}

bool add_message(Fields& fields, const std::string& name, const json& item, json* messages) {
  std::string role = text_member(item, "role");
  if (role == "developer") role = "system";  // the word of templates
  if (role != "user" && role != "assistant" && role != "system") {
    fields.fail(name + ".role", "must be user, assistant, system or developer");
    return false;
  }
  std::string text;
  if (!read_text(fields, name + ".content", item.value("content", json()), &text)) return false;
  messages->push_back({{"role", role}, {"content", text}});
  return true;
}

/// Adds an item to the messages; what is left out is named in `left_out`.
bool add_item(Fields& fields, const std::string& name, const json& item, json* messages,
              json* left_out) {
  if (!item.is_object()) {
    fields.fail(name, "must be an object");
    return false;
  }
  const std::string kind = kind_of_item(item);
  if (kind == "reasoning") return true;  // models do not get their earlier reasoning
  if (is_compaction(kind)) return add_summary(fields, name, item, messages);
  if (referenced_id(item)) {
    fields.fail(name, "names an item by its id, which is not looked up here: send the item itself");
    return false;
  }
  if (add_call_item(item, kind, messages)) return true;
  if (is_of_hosted_tool(kind)) {
    (*left_out)[name + ":" + kind] = true;
    return true;
  }
  if (is_result_of_call(kind)) return add_result(fields, name, item, messages, left_out);
  if (kind == "message") return add_message(fields, name, item, messages);
  fields.fail(name + ".type",
              "must be message, reasoning, function_call, custom_tool_call, local_shell_call, one "
              "of those with _output, item_reference or compaction");
  return false;
}

void read_tools(Fields& fields, json* chat) {
  const json* tools = fields.take("tools");
  if (tools != nullptr) {
    if (!tools->is_array()) return fields.fail("tools", "must be an array");
    (*chat)["tools"] = *tools;
  }
  const json* choice = fields.take("tool_choice");
  if (choice == nullptr) return;
  (*chat)["tool_choice"] = *choice;
  if (choice->is_object() && choice->value("type", json()) == "function") {
    (*chat)["tool_choice"] = {{"type", "function"},
                              {"function", {{"name", choice->value("name", json())}}}};
  }
}

/// Reads the input. It may be empty if there is a conversation to continue.
void read_input(Fields& fields, ResponsesRequest* out) {
  const json* input = fields.take("input");
  const bool none = input == nullptr || (input->is_array() && input->empty());
  json items = json::array();
  if (none && !out->previous.empty()) {
    out->items = items.dump();
    return;
  }
  if (input == nullptr) {
    return fields.fail("input", "is required: a text or a list of items");
  }
  if (input->is_string()) {
    items.push_back({{"type", "message"}, {"role", "user"}, {"content", *input}});
  } else if (input->is_array() && !none) {
    items = *input;
  } else {
    return fields.fail("input", "must be a text or a list of items");
  }
  out->items = items.dump();
}

std::string echo_of(const json& body) {
  json echo;
  for (const Echo& member : kEchoes) {
    const auto it = body.find(member.name);
    const bool given = it != body.end() && !it->is_null();
    echo[member.name] = given ? *it : try_parse_json<json>(member.otherwise);
  }
  return echo.dump();
}

}  // namespace

namespace {

void check_metadata(Fields& fields) {
  const json* metadata = fields.take("metadata");
  if (metadata && !metadata->is_object()) fields.fail("metadata", "must be an object");
}

void read_truncation(Fields& fields, json* chat) {
  std::string text;
  if (!fields.text("truncation", &text) || text == "disabled") return;
  if (text != "auto") fields.fail("truncation", "must be \"auto\" or \"disabled\"");
  (*chat)["truncation"] = text;  // named as ignored: nothing of a conversation is left out
}

}  // namespace

bool parse_response(const json& body, ResponsesRequest* out, FieldError* error) {
  Fields fields(body);
  json chat = json::object();
  fields.text("previous_response_id", &out->previous);
  read_input(fields, out);
  read_tools(fields, &chat);
  if (const json* format = fields.take("text")) {
    if (!format->is_object()) fields.fail("text", "must be an object");
    chat["text"] = *format;
  }
  std::string text;
  if (fields.text("instructions", &text)) chat["instructions"] = text;
  fields.boolean("stream", &out->stream);
  fields.boolean("background", &out->background);
  fields.boolean("store", &out->store);
  if (out->background && !out->store) {
    fields.fail("background", "is only allowed with 'store': true");
  }
  std::int64_t tokens = 0;
  if (fields.integer("max_output_tokens", 1, std::int64_t{1} << 40, &tokens)) {
    chat["max_completion_tokens"] = tokens;
  }
  check_metadata(fields);
  read_truncation(fields, &chat);
  // Everything else is as in a chat, where unknown members are named as ignored.
  for (const std::string& name : fields.unknown()) chat[name] = body[name];
  if (fields.error()) {
    *error = *fields.error();
    return false;
  }
  out->chat = chat.dump();
  out->echo = echo_of(body);
  return true;
}

bool chat_body(const ResponsesRequest& request, const std::vector<std::string>& turns, json* out,
               FieldError* error) {
  *out = try_parse_json<json>(request.chat);
  json messages = json::array();
  if (out->contains("instructions")) {
    messages.push_back({{"role", "system"}, {"content", (*out)["instructions"]}});
    out->erase("instructions");
  }
  const json empty = json::object();
  Fields fields(empty);
  for (const std::string& turn : turns) {
    const json items = try_parse_json<json>(turn);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (add_item(fields, "input[" + std::to_string(i) + "]", items[i], &messages, out)) continue;
      *error = *fields.error();
      return false;
    }
  }
  (*out)["messages"] = std::move(messages);
  return true;
}

json reasoning_item(const std::string& id, const std::string& text, const char* status) {
  json content = json::array();
  if (!text.empty()) content.push_back({{"type", "reasoning_text"}, {"text", text}});
  return {{"id", "rs_" + id},
          {"type", "reasoning"},
          {"summary", json::array()},
          {"content", std::move(content)},
          {"status", status}};
}

json message_item(const std::string& id, const std::string& text, const char* status) {
  json content = json::array();
  if (!text.empty()) {
    content.push_back({{"type", "output_text"},
                       {"text", text},
                       {"annotations", json::array()},
                       {"logprobs", json::array()}});
  }
  return {{"id", "msg_" + id},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

json call_item(const std::string& id, int call, const TurnParts::Call& what, const char* status) {
  return {{"id", "fc_" + id + "_" + std::to_string(call)},
          {"type", "function_call"},
          {"status", status},
          {"call_id", "call_" + call_id(id, 0, call)},
          {"name", what.name},
          {"arguments", what.arguments}};
}

json output_items(const std::string& id, const TurnParts& parts) {
  const char* status = parts.ended ? "completed" : "in_progress";
  json items = json::array();
  if (!parts.reasoning.empty()) items.push_back(reasoning_item(id, parts.reasoning, status));
  if (!parts.content.empty()) items.push_back(message_item(id, parts.content, status));
  for (std::size_t i = 0; i < parts.calls.size(); ++i) {
    items.push_back(call_item(id, static_cast<int>(i), parts.calls[i], status));
  }
  return items;
}

std::string response_status(const wire::RequestInfo& info) {
  switch (info.state) {
    case wire::RequestState::kQueued:
      return "queued";
    case wire::RequestState::kSucceeded:
      return finish_word(info, 0) == "length" ? "incomplete" : "completed";
    case wire::RequestState::kCancelled:
      return "cancelled";
    case wire::RequestState::kFailed:
    case wire::RequestState::kExpired:
      return "failed";
    default:
      return "in_progress";
  }
}

/// The text of all messages, as OpenAI's own clients add it.
static std::string text_of_output(const json& output) {
  std::string text;
  for (const json& item : output) {
    if (item.value("type", "") != "message") continue;
    for (const json& part : item["content"]) text += part.value("text", "");
  }
  return text;
}

json response_json(const wire::RequestInfo& info, const std::string& echo_text, json output,
                   const UsageDetails& details) {
  const std::string status = response_status(info);
  json out;
  out["id"] = info.request_id;
  out["object"] = "response";
  out["created_at"] = info.created_ms / 1000;
  out["status"] = status;
  out["error"] = nullptr;
  if (status == "failed") {
    const wire::Refusal failure = failure_of(info, 0);
    out["error"] = {{"code", errc_name(failure.code)}, {"message", failure.message}};
  }
  out["incomplete_details"] = nullptr;
  if (status == "incomplete") out["incomplete_details"] = {{"reason", "max_output_tokens"}};
  out["model"] = model_name(info);
  const std::string text = text_of_output(output);
  out["output"] = std::move(output);
  // Only at the end: clients that join events themselves would take the empty one.
  if (wire::is_terminal(info.state)) out["output_text"] = text;
  const json echo = try_parse_json<json>(echo_text);
  if (echo.is_object()) {
    for (const auto& [name, value] : echo.items()) out[name] = value;
  }
  const json usage = try_parse_json<json>(usage_json(info));
  out["usage"] = {{"input_tokens", usage["prompt_tokens"]},
                  {"input_tokens_details", {{"cached_tokens", details.cached}}},
                  {"output_tokens", usage["completion_tokens"]},
                  {"output_tokens_details", {{"reasoning_tokens", details.reasoning}}},
                  {"total_tokens", usage["total_tokens"]}};
  if (!wire::is_terminal(info.state)) out["usage"] = nullptr;
  return out;
}

}  // namespace holdfast::gateway
