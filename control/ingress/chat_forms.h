#pragma once
// Templates differ in what they take: some know no system turn, some no tools, some want turns to
// alternate or ids of nine characters, some read arguments as text. A history that a template
// refuses, or of which it drops a text, is tried in other forms that say the same.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::ingress {

/// Ways to say the same, to be combined.
enum ChatForm : std::uint32_t {
  kSystemsJoined = 1,       // leading system messages are one, later ones are the user's
  kShortIds = 2,            // ids of calls are nine letters and digits
  kArgumentsAsText = 4,     // arguments of calls are JSON text
  kArgumentsAsObjects = 8,  // arguments that are no object are one with a member "input"
  kSystemInUser = 16,       // system texts stand at the head of the user's next message
  kCallsAsText = 32,        // calls are text of the assistant, answers of tools are the user's
  kTurnsJoined = 64,        // neighbours of one role are one message, the first is the user's
  kToolsEmpty = 128,        // where no tools are there is an empty list of them
};
inline constexpr std::uint32_t kAllChatForms = 255;

/// Those that would change something, of normalized messages.
std::uint32_t applicable_forms(const nlohmann::ordered_json& messages, bool has_tools);

/// All combinations of the `applicable` ones, the fewest changes first; the first is 0.
std::vector<std::uint32_t> form_trials(std::uint32_t applicable);

/// The messages in these forms; kToolsEmpty is not about messages.
nlohmann::ordered_json in_forms(nlohmann::ordered_json messages, std::uint32_t forms);

/// Indices of messages of which the prompt has nothing: texts of the system, of users and of tools,
/// names and arguments of calls. Told by the longest word of each, in their order; system texts
/// stand anywhere.
std::vector<std::size_t> lost_messages(const nlohmann::ordered_json& messages,
                                       std::string_view prompt);

}  // namespace holdfast::ingress
