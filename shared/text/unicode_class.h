#pragma once
// The character classes of pre-tokenizers: \p{L}, \p{N}, \p{M} and White_Space.

#include <array>
#include <cstdint>

namespace holdfast::text {

inline constexpr std::uint8_t kLetter = 1;
inline constexpr std::uint8_t kNumber = 2;
inline constexpr std::uint8_t kMark = 4;
inline constexpr std::uint8_t kSpace = 8;

/// Returns the class bits of a non-ASCII character (Unicode 15, utf8proc's tables).
std::uint8_t class_of_wide(char32_t point);

inline constexpr std::array<std::uint8_t, 128> kAsciiClass = [] {
  std::array<std::uint8_t, 128> table{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool number = c >= '0' && c <= '9';
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    table[static_cast<std::size_t>(c)] = letter ? kLetter : number ? kNumber : space ? kSpace : 0;
  }
  return table;
}();

/// Returns the class bits (kLetter, …) of any character.
inline std::uint8_t class_of(char32_t point) {
  return point < 128 ? kAsciiClass[point] : class_of_wide(point);
}

}  // namespace holdfast::text
