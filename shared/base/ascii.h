#pragma once
// Texts in ASCII: what protocols and file names are made of. No locale.

#include <algorithm>
#include <string>
#include <string_view>

namespace holdfast {

/// Returns the text with A to Z in lower case; other bytes as they are.
inline std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

/// Returns the text without blanks, tabs and line ends at both ends.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Returns true for `digits` hexadecimal digits in lower case and nothing else.
inline bool is_lower_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace holdfast
