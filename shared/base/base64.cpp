#include "shared/base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace holdfast {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::uint8_t kNoDigit = 64;

constexpr std::array<std::uint8_t, 256> values_of_digits() {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (std::size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}
constexpr std::array<std::uint8_t, 256> kValues = values_of_digits();

}  // namespace

// Writes the bytes in place: contents of files pass here in the daemon's only thread.
std::string to_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '=');
  char* to = out.data();
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < n ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k <= n; ++k) to[k] = kDigits[group >> (18 - 6 * k) & 63];
    to += 4;
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;  // at most two, at the end of the text
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string out(text.size() / 4 * 3, '\0');
  char* to = out.data();
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t group = 0;
    for (std::size_t k = i; k < i + 4; ++k) {
      const bool pads = k >= text.size() - padding;
      const std::uint8_t digit = pads ? 0 : kValues[static_cast<std::uint8_t>(text[k])];
      if (digit == kNoDigit) return std::nullopt;
      group = group << 6 | digit;
    }
    for (std::size_t k = 0; k < 3; ++k) *to++ = static_cast<char>(group >> (16 - 8 * k));
  }
  out.resize(out.size() - padding);
  return out;
}

}  // namespace holdfast
