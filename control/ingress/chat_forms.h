#pragma once
// Forms of a chat history. Templates differ in what they take: some know no system turn, some no
// tools, some require turns to alternate or ids of nine characters, some read arguments as text. A
// history that a template refuses, or of which it drops a text, is tried in other such forms.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::ingress {

/// Changes of the form that leave the meaning; they can be combined.
enum ChatForm : std::uint32_t {
  kSystemsJoined = 1,       // leading system messages are joined, later ones become the user's
  kShortIds = 2,            // ids of calls become nine letters and digits
  kArgumentsAsText = 4,     // arguments of calls become JSON text
  kArgumentsAsObjects = 8,  // arguments that are no object become one with a member "input"
  kSystemInUser = 16,       // system texts move to the head of the user's next message
  kCallsAsText = 32,        // calls become the assistant's text, answers of tools the user's
  kTurnsJoined = 64,        // adjacent messages of one role are joined, the first is the user's
  kToolsEmpty = 128,        // a request without tools gives the template an empty list
};
inline constexpr std::uint32_t kAllChatForms = 255;

/// The forms that would change something. `messages` are normalized (chat/messages.h).
std::uint32_t applicable_forms(const nlohmann::ordered_json& messages, bool has_tools);

/// All combinations of `applicable` forms, the fewest changes first; the first is 0.
std::vector<std::uint32_t> form_trials(std::uint32_t applicable);

/// The messages in these forms; kToolsEmpty is not about messages.
nlohmann::ordered_json in_forms(nlohmann::ordered_json messages, std::uint32_t forms);

/// Indices of messages that the prompt leaves out: texts of the system, users and tools, names and
/// arguments of calls. Each is sought by its longest word, in their order; system texts anywhere.
std::vector<std::size_t> lost_messages(const nlohmann::ordered_json& messages,
                                       std::string_view prompt);

}  // namespace holdfast::ingress
