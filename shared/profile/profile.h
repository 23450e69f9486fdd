#pragma once
// A profile is what a name of a model adds to its file: a chat template in place of the file's, a
// system message, messages before those of a request, defaults of options, a license. It is a JSON
// object in the model's row, read where prompts are prepared (control/ingress), so that every way
// in has the same:
//   {"template": "…", "system": "…", "messages": [{"role", "content"}, …],
//    "parameters": {"temperature": 0.2, "stop": ["…"], "max_tokens": 100, …}, "license": "…"}
// Parameters have the names and ranges of shared/sampling/parameters.h, and `stop`, `max_tokens`.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::profile {

/// Bounds of a profile: bytes of its JSON text, and messages before those of a request.
inline constexpr std::size_t kBytesMax = std::size_t{256} << 10;
inline constexpr std::size_t kMessagesMax = 64;

/// A profile as it was read. Empty texts: the file's own, or nothing.
struct Profile {
  std::string chat_template;  // Jinja
  std::string system;
  std::string messages_json;        // array, normalized (shared/chat/messages.h)
  std::string license;              // is only shown
  wire::GenerationOptions options;  // defaults; `given` has the names of those that are set
  bool empty = true;                // it adds nothing
};

/// Reads a profile; an empty text is an empty one. The template is not parsed. kInvalidRequest with
/// the member that is wrong, what it is and what was expected; for more than kBytesMax too.
Result<Profile> read_profile(std::string_view json);

/// Checks a profile of a caller, whose members may be null or empty, and returns it without these:
/// an empty text if nothing is left. Errors of read_profile().
Result<std::string> checked_profile(const nlohmann::ordered_json& object);

/// Sets the options that a request leaves to its server to those of the profile: what `given` does
/// not name, or without `given` what has its default. A number of tokens goes to most_tokens.
/// mirostat does not go to a request whose grammar is to be complete.
void give_options(const Profile& profile, wire::GenerationOptions& options);

/// Messages of a profile in those of a request: `count` from `at` on.
struct AddedMessages {
  std::size_t at = 0;
  std::size_t count = 0;
  /// The index in the request's own list; -1 for a message of the profile.
  std::ptrdiff_t index_in_request(std::size_t index) const {
    if (index < at) return static_cast<std::ptrdiff_t>(index);
    return index < at + count ? -1 : static_cast<std::ptrdiff_t>(index - count);
  }
};
/// Adds the profile's messages to normalized ones: its system message first if the request has
/// none, its other messages before the first one that is not the system's.
AddedMessages add_messages(const Profile& profile, nlohmann::ordered_json& messages);

}  // namespace holdfast::profile
