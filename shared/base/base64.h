#pragma once
// Base64 with padding, as RFC 4648 section 4 has it.

#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

std::string to_base64(std::string_view bytes);
/// nullopt for what is no base64: another character, a wrong length, padding in the middle.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace holdfast
