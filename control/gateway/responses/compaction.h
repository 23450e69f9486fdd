#pragma once
// Compaction of a conversation: its summary as an item that a client stores and sends again, and
// how the model is asked for it. The item holds the summary in plain form, so that its client can
// read it: it is neither secret nor signed, and says nothing that the client could not have sent
// itself.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace holdfast::gateway {

/// True for "compaction" and for "compaction_summary", as older clients call it.
bool is_compaction(const std::string& kind);

/// Returns the item's `encrypted_content`: base64url of {"v":1,"summary":…}. Deterministic.
std::string pack_summary(const std::string& summary);
/// Returns nullopt if the content was not made by pack_summary or is incomplete.
std::optional<std::string> unpack_summary(const std::string& content);

/// Returns the summary as the message that stands for it in a later conversation.
nlohmann::ordered_json summary_message(const std::string& summary);

/// Appends the instruction to summarise to a chat's `messages`.
void ask_for_summary(nlohmann::ordered_json* messages);

}  // namespace holdfast::gateway
