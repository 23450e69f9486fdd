#pragma once
// UTF-8 steps that tokenizers share: the end of well-formed text, and single characters of
// well-formed text.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/bytes.h"

namespace holdfast::text {

/// A character and the length of its UTF-8 form.
struct Char {
  char32_t point = 0;
  std::uint32_t bytes = 0;
};

/// Returns the character at p, which starts a well-formed sequence that ends before the end of the
/// text (first_invalid_utf8 returned nullopt for it).
inline Char decode_char(const char* p) {
  const auto byte = [p](int i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(p[i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

/// Returns the byte offset of the first ill-formed sequence (Unicode 15, table 3-7); nullopt if
/// there is none.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// Appends the UTF-8 form of a scalar value below 0x110000.
void append_utf8(char32_t point, std::string& out);

}  // namespace holdfast::text
