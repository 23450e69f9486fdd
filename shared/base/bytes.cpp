#include "shared/base/bytes.h"

namespace holdfast {

std::string to_hex(ByteSpan bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    out.push_back(kDigits[std::to_integer<unsigned>(b) >> 4]);
    out.push_back(kDigits[std::to_integer<unsigned>(b) & 15]);
  }
  return out;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::uint32_t length = utf8_length_at(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace holdfast
