#include "control/ingress/chat.h"

#include <nlohmann/json.hpp>

namespace holdfast::ingress {
namespace {

using nlohmann::json;

Error invalid(const std::string& what) {
  return {Errc::kInvalidRequest, "chat: " + what};
}

const std::string* string_field(const json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : it->get_ptr<const std::string*>();
}

Result<std::string> content_text(const json& message, const std::string& name) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return std::string();
  if (const auto* text = content->get_ptr<const std::string*>()) return *text;
  if (!content->is_array()) return invalid(name + ".content: expected text or an array of parts");
  std::string out;
  for (const json& part : *content) {
    const std::string* type = part.is_object() ? string_field(part, "type") : nullptr;
    const std::string* text = part.is_object() ? string_field(part, "text") : nullptr;
    if (type == nullptr || *type != "text" || text == nullptr) {
      return invalid(name + ".content: only parts of type \"text\" are understood");
    }
    out += *text;
  }
  return out;
}

}  // namespace

Result<std::string> render_plain_chat(std::string_view text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return invalid("not a JSON object");
  const auto messages = root.find("messages");
  if (messages == root.end() || !messages->is_array() || messages->empty()) {
    return invalid("messages: expected a list with at least one message");
  }
  std::string out;
  std::size_t i = 0;
  for (const json& message : *messages) {
    const std::string name = "messages[" + std::to_string(i++) + "]";
    const std::string* role = message.is_object() ? string_field(message, "role") : nullptr;
    if (role == nullptr || role->empty()) return invalid(name + ".role: expected text");
    HF_TRY(const std::string content, content_text(message, name));
    out += *role + ": " + content + "\n";
  }
  return out + "assistant:";
}

}  // namespace holdfast::ingress
