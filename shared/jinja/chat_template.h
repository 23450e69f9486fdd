#pragma once
// A model's chat template: messages to the exact prompt text that the model was trained on. The
// language is the part of Jinja2 that templates use (docs/use/chat-templates.md), in a sandbox:
// bounded steps, output and depth; no access to anything but its input.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::text {

/// The input of a rendering. The JSON texts are a chat request's own.
struct ChatInput {
  std::string messages_json;  // array
  std::string tools_json;     // array, or empty = none
  std::string extra_json;     // object of further variables (enable_thinking, …), or empty
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
  std::string date;  // YYYY-MM-DD for strftime_now; empty = an error if the template calls it
};

/// A parsed template. Immutable: safe from any thread.
class ChatTemplate {
 public:
  /// Parses a template. kFileInvalid with "chat template line N: …" for a syntax error or a missing
  /// feature.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  virtual ~ChatTemplate() = default;
  /// Renders the prompt. kInvalidRequest with "chat template line N: …": the template refused the
  /// messages (raise_exception), failed on them, or exceeded its bounds.
  virtual Result<std::string> render(const ChatInput& input) const = 0;
};

/// Returns YYYY-MM-DD in UTC: ChatInput::date of a rendering at this Unix time.
std::string utc_date(std::int64_t unix_seconds);

}  // namespace holdfast::text
