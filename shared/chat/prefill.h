#pragma once
// Answers that their messages begin: the last message is the assistant's, and the model continues
// it.

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace holdfast::chat {

/// The part of the answer that the given beginning ends in.
enum class Prefill {
  kEmpty,     // nothing: the answer has a turn and no text
  kThinking,  // reasoning that has not ended
  kText,      // its text
};

/// Takes a normalized message (chat/messages.h).
Prefill prefill_of(const nlohmann::ordered_json& message);

/// Returns the reasoning that a text has begun and not ended: the text after its <think>. Null data
/// if there is none.
std::string_view open_thinking(std::string_view content);

/// Returns the part of a text after its reasoning, without leading white space. Templates write it
/// unchanged, whatever they do with the text before.
std::string_view text_after_thinking(std::string_view content);

}  // namespace holdfast::chat
