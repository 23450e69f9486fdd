#pragma once
// Messages as clients send them, brought into the one form that chat templates are written for: all
// dialects pass here, before any template. Programs give back what they got (null members, empty
// lists of calls), leave out what they do not know, or write in the forms of older APIs.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::chat {

struct MessageFault {
  std::string where;  // "messages[2].content[1]"
  std::string what;   // "must be …"
};

/// Opens a JSON text inside of a message: a discarded value if it is none, an error if it is too
/// much for the body that it came with.
using OpenText = std::function<Result<nlohmann::ordered_json>(std::string_view)>;

/// Afterwards each message has `role` and `content`, both text, and of what is null nothing:
/// - no content, or null: ""; parts of text: their texts as lines; refusals are text;
/// - thinking in parts, and `reasoning`: `reasoning_content`;
/// - `tool_calls`: absent, or a list with at least one call of {id?, type, function: {name,
///   arguments}}; arguments are an object where they are one, also as text or of nothing; a text
///   that is no object stays what it is;
/// - `function_call` and the role `function` of old: a call, and the role `tool`;
/// - an answer of a tool has the id and the name of its call, as far as that can be known.
/// Other members stay. What is in the right form stays as it is, so twice is as once. `messages`
/// is any value; the fault names the first place that cannot be understood. Any thread.
std::optional<MessageFault> normalize_messages(nlohmann::ordered_json& messages,
                                               const OpenText& open);

}  // namespace holdfast::chat
