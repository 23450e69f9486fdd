#pragma once
// Base64 with padding, as in RFC 4648 section 4.

#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

/// Returns the bytes in base64, with padding.
std::string to_base64(std::string_view bytes);
/// Returns nullopt for text that is not base64: another character, a wrong length, padding in the
/// middle.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace holdfast
