#pragma once
// An answer that its messages have begun: the last one is of the assistant, and the model goes on
// where it ends.

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace holdfast::chat {

/// What the begun answer is in the middle of.
enum class Prefill {
  kEmpty,     // nothing: the answer has a turn and no text
  kThinking,  // reasoning that has not ended
  kText,      // its text
};

/// Takes a normalized message (chat/messages.h).
Prefill prefill_of(const nlohmann::ordered_json& message);

/// The reasoning that a text has begun and not ended: what stands behind its <think>. Null data if
/// it has begun none.
std::string_view open_thinking(std::string_view content);

/// The part of a text behind its reasoning, without white space before it. Templates write it as it
/// is, whatever they do to what stands before.
std::string_view behind_thinking(std::string_view content);

}  // namespace holdfast::chat
