#pragma once
// A conversation made short: its summary as an item that a client keeps and sends again, and how
// the model is asked for it. The item holds the summary as it is, for its client to read too: it
// is neither secret nor signed, and says nothing that the client could not have sent itself.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace holdfast::gateway {

/// "compaction", or as older clients call it "compaction_summary".
bool is_compaction(const std::string& kind);

/// `encrypted_content` of an item: base64url of {"v":1,"summary":…}. The same bytes for the same
/// summary.
std::string pack_summary(const std::string& summary);
/// nullopt: it was not made here, or not whole.
std::optional<std::string> unpack_summary(const std::string& content);

/// The summary as the message that stands for it in a later conversation.
nlohmann::ordered_json summary_message(const std::string& summary);

/// Asks for the summary behind `messages`, those of a chat.
void ask_for_summary(nlohmann::ordered_json* messages);

}  // namespace holdfast::gateway
