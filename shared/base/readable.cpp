#include "shared/base/readable.h"

#include "shared/base/bytes.h"

namespace holdfast {
namespace {

/// Returns the bytes of the character that `text` begins with; 0: it begins with none.
std::size_t first_character(std::string_view text) {
  for (std::size_t n = 1; n <= 4 && n <= text.size(); ++n) {
    if (is_valid_utf8(text.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

std::string readable(std::string_view text, std::size_t most) {
  std::string out;
  std::size_t cut = 0;  // length written after which "..." still fits
  while (!text.empty()) {
    const std::size_t n = first_character(text);
    const std::string_view character = n == 0 ? std::string_view("?") : text.substr(0, n);
    if (out.size() + character.size() > most) {
      out.resize(cut);
      return out + "...";
    }
    out += character;
    if (out.size() + 3 <= most) cut = out.size();
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

}  // namespace holdfast
