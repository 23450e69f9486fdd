#pragma once
// Renders the prompt of a chat request.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/profile/profile.h"
#include "shared/text/tokenizer.h"

namespace holdfast::ingress {

/// The prompt of a chat request, and the offsets at which no special token may begin.
struct RenderedChat {
  std::string text;
  std::vector<std::size_t> plain;  // text::EncodeOptions::plain
  /// Notes for the client, a word each: the form in which messages were given to the template,
  /// messages that the template leaves out. See docs/use/chat-templates.md.
  std::vector<std::string> notes;
};

/// Applies the chat template of the profile, or else the model's own, to a chat request and the
/// messages of the profile. `json`: {"messages": [{"role",
/// "content"}, …], "tools"?: […], "chat_template_kwargs"?: {…}, "parse_special"?: false,
/// "add_generation_prompt"?: true, "continue_final_message"?: false}; messages as chat/messages.h
/// takes them. With continue_final_message the last message, of the assistant, is the beginning of
/// the answer and stays open (chat/prefill.h). Texts of the request stay text: no special token is
/// read from them, unless `parse_special` is true. `date` is YYYY-MM-DD.
/// Errors: kInvalidRequest names the message that is wrong and why, or the template's line that
/// refused; kNoChatTemplate if the model's file has none.
Result<RenderedChat> render_chat(std::string_view json, const text::Tokenizer& tokenizer,
                                 const std::string& date, const profile::Profile& profile = {});

}  // namespace holdfast::ingress
