#include "shared/text/utf8.h"

#include <cstring>

namespace holdfast::text {

std::uint32_t utf8_length_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  // The second byte alone reveals overlong forms, surrogates and values past U+10FFFF.
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::uint32_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8) {  // eight ASCII bytes at once: nearly all of most prompts
      std::uint64_t chunk;
      std::memcpy(&chunk, text.data() + at, 8);
      if ((chunk & 0x8080808080808080ULL) == 0) {
        at += 8;
        continue;
      }
    }
    const std::uint32_t length = utf8_length_at(text.substr(at, 4));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

void append_utf8(char32_t point, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto p = static_cast<std::uint32_t>(point);
  if (p < 0x80) {
    put(p);
  } else if (p < 0x800) {
    put(0xC0 | p >> 6);
    put(0x80 | (p & 0x3F));
  } else if (p < 0x10000) {
    put(0xE0 | p >> 12);
    put(0x80 | (p >> 6 & 0x3F));
    put(0x80 | (p & 0x3F));
  } else {
    put(0xF0 | p >> 18);
    put(0x80 | (p >> 12 & 0x3F));
    put(0x80 | (p >> 6 & 0x3F));
    put(0x80 | (p & 0x3F));
  }
}

}  // namespace holdfast::text
