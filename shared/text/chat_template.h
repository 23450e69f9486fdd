#pragma once
// A model's chat template: messages to the exact prompt text that the model was trained on. The
// language is Jinja2's as templates use it (docs/chat-templates.md), in a sandbox: bounded steps,
// output and depth; no access to anything but its input.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::text {

/// What a rendering gets. The JSON texts are a chat request's own.
struct ChatInput {
  std::string messages_json;  // array
  std::string tools_json;     // array, or empty = none
  std::string extra_json;     // object of further variables (enable_thinking, …), or empty
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
  std::string date;  // YYYY-MM-DD for strftime_now; empty = an error if the template asks
};

/// Immutable: safe from any thread.
class ChatTemplate {
 public:
  /// kFileInvalid with "chat template line N: …" for what is no template or uses what we lack.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  virtual ~ChatTemplate() = default;
  /// kInvalidRequest with "chat template line N: …": the template refused the messages
  /// (raise_exception), failed on them, or used up its bounds.
  virtual Result<std::string> render(const ChatInput& input) const = 0;
};

/// YYYY-MM-DD in UTC, what ChatInput::date is for a rendering at this Unix time.
std::string utc_date(std::int64_t unix_seconds);

}  // namespace holdfast::text
