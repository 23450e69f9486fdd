#pragma once
// What a client's tools gave back, where it is more than text.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace holdfast::gateway {

/// The content of a tool's result, in Anthropic's blocks or OpenAI's parts, with a line of text in
/// the place of each picture and file: models here read text alone, and a conversation in which a
/// tool has read a picture goes on, where a refusal would meet it again at every turn. Each is
/// named in `left_out` by its place and kind. All else stays as it is.
nlohmann::ordered_json without_pictures(const std::string& name,
                                        const nlohmann::ordered_json& content,
                                        nlohmann::ordered_json* left_out);

}  // namespace holdfast::gateway
