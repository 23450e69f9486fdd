#include "shared/text/utf8.h"

#include <cstring>

namespace holdfast::text {

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
