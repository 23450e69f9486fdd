#include "shared/grammar/source.h"

#include "shared/text/utf8.h"

namespace holdfast::grammar {

Result<std::u32string> decode_source(std::string_view text) {
  if (const auto at = text::first_invalid_utf8(text)) {
    return Error{Errc::kInvalidRequest,
                 "invalid UTF-8 at byte " + std::to_string(*at) + "; expected UTF-8 text"};
  }
  std::u32string out;
  for (std::size_t i = 0; i < text.size();) {
    const text::Char c = text::decode_char(text.data() + i);
    out.push_back(c.point);
    i += c.bytes;
  }
  return out;
}

std::optional<std::uint32_t> SourceReader::read_number(std::uint32_t max) {
  std::uint64_t number = 0;
  bool any = false;
  for (; peek() >= '0' && peek() <= '9'; ++at_) {
    if (number <= max) number = number * 10 + (peek() - '0');
    any = true;
  }
  if (!any || number > max) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

std::optional<char32_t> SourceReader::read_hex(int n) {
  char32_t value = 0;
  for (int i = 0; i < n; ++i) {
    const char32_t c = peek(static_cast<std::size_t>(i));
    char32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f' && c != kNoChar) {
      digit = (c | 0x20) - 'a' + 10;
    } else {
      return std::nullopt;
    }
    value = value << 4 | digit;
  }
  at_ += static_cast<std::size_t>(n);
  return value;
}

std::string SourceReader::position() const {
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i < at_ && i < text_.size(); ++i) {
    column = text_[i] == '\n' ? 1 : column + 1;
    line += text_[i] == '\n' ? 1 : 0;
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace holdfast::grammar
