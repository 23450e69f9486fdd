#pragma once
// Normalizes tools of clients into the one form that chat templates are written for.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "shared/chat/messages.h"

namespace holdfast::chat {

/// Normalizes the tools. Each then is {type: "function", function: {name, …}} with a unique name:
/// - flat functions ({name, parameters}, also with Anthropic's input_schema) are nested;
/// - the functions of a namespace replace it; one whose name is taken is left out;
/// - parameters that are null are absent, and so are other null members;
/// - a tool that is not a function (web_search, mcp, custom, …) cannot be called here: it is left
///   out and named in `left_out` as "tools[1]:web_search".
/// `tools` is any value, `list` the member's name in the body. Any thread.
std::optional<MessageFault> normalize_tools(nlohmann::ordered_json& tools,
                                            std::vector<std::string>* left_out,
                                            const std::string& list = "tools");

}  // namespace holdfast::chat
