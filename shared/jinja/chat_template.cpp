#include "shared/jinja/chat_template.h"

#include <ctime>

#include "shared/base/bytes.h"
#include "shared/jinja/eval.h"

namespace holdfast::text {
namespace {

Error template_error(Errc code, const jinja::TemplateError& e) {
  return Error{code, e.line > 0 ? "chat template line " + std::to_string(e.line) + ": " + e.what()
                                : std::string("chat template: ") + e.what()};
}

class ChatTemplateImpl final : public ChatTemplate {
 public:
  explicit ChatTemplateImpl(jinja::Body body) : body_(std::move(body)) {}

  Result<std::string> render(const ChatInput& input) const override {
    jinja::Dict globals;
    try {
      globals.set("messages", jinja::from_json(input.messages_json));
      globals.set("tools", input.tools_json.empty() ? jinja::Value::none()
                                                    : jinja::from_json(input.tools_json));
      globals.set("add_generation_prompt", jinja::Value::boolean(input.add_generation_prompt));
      globals.set("bos_token", jinja::Value::string(input.bos_token));
      globals.set("eos_token", jinja::Value::string(input.eos_token));
      if (!input.extra_json.empty()) {
        const jinja::Value extra = jinja::from_json(input.extra_json);
        if (!extra.is(jinja::Kind::kDict))
          throw jinja::TemplateError("extra variables are no object");
        for (const auto& [name, value] : extra.as_dict().items()) globals.set(name, value);
      }
      return jinja::render(body_, globals, input.date, {});
    } catch (const jinja::TemplateError& e) {
      return template_error(Errc::kInvalidRequest, e);
    }
  }

 private:
  jinja::Body body_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  if (!is_valid_utf8(source)) return Error{Errc::kFileInvalid, "chat template: is not UTF-8"};
  try {
    return std::shared_ptr<const ChatTemplate>(
        std::make_shared<ChatTemplateImpl>(jinja::parse_template(source)));
  } catch (const jinja::TemplateError& e) {
    return template_error(Errc::kFileInvalid, e);
  }
}

std::string utc_date(std::int64_t unix_seconds) {
  const auto at = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  gmtime_r(&at, &utc);
  char buffer[16];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%d", &utc);
  return buffer;
}

}  // namespace holdfast::text
