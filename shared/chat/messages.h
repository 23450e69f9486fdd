#pragma once
// Normalizes messages of clients into the one form that chat templates are written for, whatever
// the API dialect. Clients return what they received (null members, empty lists of calls), leave
// out members that they do not know, or write in the forms of older APIs.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::chat {

/// A fault in a client's messages or tools: its location and what was expected.
struct MessageFault {
  std::string where;  // "messages[2].content[1]"
  std::string what;   // "must be …"
};

/// Parses a JSON text inside of a message: a discarded value if it is not JSON, an error if it is
/// too large for the body that it came with.
using OpenText = std::function<Result<nlohmann::ordered_json>(std::string_view)>;

/// Normalizes the messages. Each then has `role` and `content`, both text, and no null members:
/// - no content, or null: ""; parts of text: their texts as lines; refusals are text;
/// - thinking in parts, and `reasoning`: `reasoning_content`;
/// - `tool_calls`: absent, or a list with at least one call of {id?, type, function: {name,
///   arguments}}; arguments that are an object, a text of one or missing become an object; a text
///   that is not an object stays as it is;
/// - the older `function_call` and role `function`: a call, and the role `tool`;
/// - an answer of a tool has the id and the name of its call, as far as they can be found.
/// Other members stay, and so does what is in the right form: normalizing twice changes nothing.
/// `messages` is any value; the fault names the first place that cannot be understood. Any thread.
std::optional<MessageFault> normalize_messages(nlohmann::ordered_json& messages,
                                               const OpenText& open);

}  // namespace holdfast::chat
