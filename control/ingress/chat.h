#pragma once
// The prompt of a chat request.

#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::ingress {

/// `json`: {"messages": [{"role", "content"}, …], …}; content is a string, null, or an array of
/// {"type": "text", "text"} parts. The plain format: a line "role: content" for each message, then
/// "assistant:". kInvalidRequest names the message that is wrong and why.
Result<std::string> render_plain_chat(std::string_view json);

}  // namespace holdfast::ingress
