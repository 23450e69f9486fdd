#pragma once
// Ids, random numbers and hashes for the machine, which draws none itself.

#include <cstdint>
#include <string>
#include <string_view>

#include "control/store/store.h"
#include "shared/wire/messages.h"

namespace holdfast::daemon {

/// Returns 26 characters of Crockford's base 32 in lower case: 48 bits of time, 80 random bits.
std::string new_request_id(std::int64_t wall_ms);
std::uint64_t random_u64();
/// Returns 32 random bytes.
std::string new_secret();
/// Gives the database the secrets that it lacks.
Result<void> make_secrets(store::Store& store);
/// Returns the BLAKE2b-128 of bytes, in hex.
std::string content_hash(std::string_view bytes);
/// Returns the BLAKE2b-128 of what makes two submissions the same, in hex: everything but tag, id,
/// idempotency key, API key with its limits, and a seed that was not given. `submit` is unchanged
/// afterwards.
std::string body_hash(wire::Submit& submit);

}  // namespace holdfast::daemon
