#pragma once
// Tools as clients send them, brought into the one form that chat templates are written for.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "shared/chat/messages.h"

namespace holdfast::chat {

/// Afterwards each tool is {type: "function", function: {name, …}} with a name that no other has:
/// - flat functions ({name, parameters}, also with Anthropic's input_schema) are nested;
/// - the functions of a namespace stand for it; one whose name is taken is left out;
/// - parameters that are null are absent; what else is null, too;
/// - what is no function (web_search, mcp, custom, …) cannot be called here: it is left out and
///   named in `left_out` as "tools[1]:web_search".
/// `tools` is any value, `list` what its body calls it. Any thread.
std::optional<MessageFault> normalize_tools(nlohmann::ordered_json& tools,
                                            std::vector<std::string>* left_out,
                                            const std::string& list = "tools");

}  // namespace holdfast::chat
