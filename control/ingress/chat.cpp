#include "control/ingress/chat.h"

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/text/chat_template.h"

namespace holdfast::ingress {
namespace {

using json = nlohmann::ordered_json;

Error invalid(const std::string& what) {
  return {Errc::kInvalidRequest, "chat: " + what};
}

const std::string* string_field(const json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : it->get_ptr<const std::string*>();
}

/// Templates expect text; clients may send it in parts. Anything but text is refused by name.
Result<void> flatten_content(json& message, const std::string& name) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null() || content->is_string()) return {};
  if (!content->is_array()) return invalid(name + ".content: expected text or an array of parts");
  std::string out;
  for (const json& part : *content) {
    const std::string* type = part.is_object() ? string_field(part, "type") : nullptr;
    const std::string* text = part.is_object() ? string_field(part, "text") : nullptr;
    if (type == nullptr || *type != "text" || text == nullptr) {
      return invalid(name + ".content: only parts of type \"text\" are understood");
    }
    if (!out.empty()) out += "\n";
    out += *text;
  }
  *content = std::move(out);
  return {};
}

Result<void> check_messages(json& root) {
  const auto messages = root.find("messages");
  if (messages == root.end() || !messages->is_array() || messages->empty()) {
    return invalid("messages: expected a list with at least one message");
  }
  std::size_t i = 0;
  for (json& message : *messages) {
    const std::string name = "messages[" + std::to_string(i++) + "]";
    const std::string* role = message.is_object() ? string_field(message, "role") : nullptr;
    if (role == nullptr || role->empty()) return invalid(name + ".role: expected text");
    HF_CHECKED(flatten_content(message, name));
  }
  return {};
}

}  // namespace

Result<std::string> render_chat(std::string_view text, const text::Tokenizer& tokenizer,
                                const std::string& date) {
  json root = try_parse_json<json>(text);
  if (!root.is_object()) return invalid("not a JSON object");
  HF_CHECKED(check_messages(root));
  if (tokenizer.chat_template().empty()) {
    return Error{Errc::kNoChatTemplate,
                 "chat: the model's file holds no chat template; send a prompt instead"};
  }
  HF_TRY(const auto chat_template, text::ChatTemplate::parse(tokenizer.chat_template()));
  text::ChatInput input;
  input.messages_json = root.at("messages").dump();
  const auto tools = root.find("tools");
  if (tools != root.end() && tools->is_array() && !tools->empty()) input.tools_json = tools->dump();
  const auto extra = root.find("chat_template_kwargs");
  if (extra != root.end() && extra->is_object()) input.extra_json = extra->dump();
  const auto generation = root.find("add_generation_prompt");
  if (generation != root.end() && generation->is_boolean()) {
    input.add_generation_prompt = generation->get<bool>();
  }
  if (tokenizer.bos() >= 0) input.bos_token = tokenizer.piece(tokenizer.bos(), true);
  if (tokenizer.eos() >= 0) input.eos_token = tokenizer.piece(tokenizer.eos(), true);
  input.date = date;
  return chat_template->render(input);
}

}  // namespace holdfast::ingress
