#pragma once
// One message = one ZeroMQ frame: 16-byte header {magic "HFST", version u16, type u16, length u32,
// reserved u32 = 0}, little-endian, then `length` bytes of CBOR (a map). schema/protocol.md.

#include <cstddef>
#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::wire {

inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 16;

/// Returns header and CBOR. Never fails for messages made by us.
std::string encode(const Message& message);
/// Encodes the message that can be long and is hashed, without making a Message of it.
std::string encode(const Submit& submit);

/// Returns kInvalidRequest if decode() would refuse the result of encode(): a number that is not
/// finite, an unknown enumerator, too many elements. Costs a walk over the fields.
Result<void> check_encodable(const Submit& submit);

/// Decodes a frame. kInvalidRequest with the reason for anything malformed: wrong magic, version,
/// type, length, CBOR nested deeper than 32, a field of the wrong type or range, text that is not
/// UTF-8. Bounded time and memory; safe on hostile input. Accepts versions kVersion and kVersion -
/// 1.
Result<Message> decode(std::string_view frame);

/// Returns "SUBMIT", … as in schema/protocol.md. For logs and tests.
std::string_view message_name(const Message& message);

}  // namespace holdfast::wire
