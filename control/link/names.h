#pragma once
// What the machine gets from outside because it draws nothing itself.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/wire/messages.h"

namespace holdfast::link {

/// 26 characters of Crockford's base 32 in lower case: 48 bits of time, 80 random bits.
std::string new_request_id(std::int64_t wall_ms);
std::uint64_t random_u64();
/// 32 random bytes.
std::string new_secret();
/// BLAKE2b-128 of bytes, hex.
std::string content_hash(std::string_view bytes);
/// BLAKE2b-128 of what makes two submissions the same: everything but tag, id and key, hex.
std::string body_hash(wire::Submit& submit);

}  // namespace holdfast::link
