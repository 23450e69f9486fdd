#pragma once
// The prompt of a chat request.

#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/text/tokenizer.h"

namespace holdfast::ingress {

/// The model's own chat template over a chat request. `json`: {"messages": [{"role", "content"},
/// …], "tools"?: […], "chat_template_kwargs"?: {…}}; content is text, null, or an array of parts
/// (adjoining text parts become lines of one text). `date` is YYYY-MM-DD.
/// Errors: kInvalidRequest names the message that is wrong and why, or the template's line that
/// refused; kNoChatTemplate if the model's file has none.
Result<std::string> render_chat(std::string_view json, const text::Tokenizer& tokenizer,
                                const std::string& date);

}  // namespace holdfast::ingress
