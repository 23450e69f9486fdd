#pragma once
// Results of a client's tools that are more than text.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace holdfast::gateway {

/// Returns the content of a tool's result, in Anthropic's blocks or OpenAI's parts, with a line of
/// text in the place of each picture and file. Models here read text alone, and a conversation in
/// which a tool has read a picture must go on: a refusal would meet it again at every turn. Each
/// one is named in `left_out` by its place and kind. All other content is unchanged.
nlohmann::ordered_json without_pictures(const std::string& name,
                                        const nlohmann::ordered_json& content,
                                        nlohmann::ordered_json* left_out);

}  // namespace holdfast::gateway
