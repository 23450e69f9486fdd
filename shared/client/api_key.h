#pragma once
// API keys: what a client sends, and what is stored of it: objects of the kind "key"
// (schema/protocol.md): {"name", "role", "tenant", "hash", "hint", "expires_ms",
// "revoked_ms", "max_requests", "requests_per_minute", "priority"}.

#include <string>
#include <string_view>

namespace holdfast::client {

inline constexpr const char* kKeyKind = "key";

/// Returns "hf_" and 43 characters: 256 random bits.
std::string new_api_key();
/// Returns 64 hex digits: BLAKE2b of the key. A key is long and random, so a fast hash is enough.
std::string hash_api_key(std::string_view key);

}  // namespace holdfast::client
