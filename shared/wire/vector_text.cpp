#include "shared/wire/vector_text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace holdfast::wire {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kHead = "{\"embedding\":\"";
constexpr std::string_view kTail = "\"}";

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

/// The bytes of whole groups with padding; empty for anything else.
std::string from_base64(std::string_view text) {
  std::string out;
  if (text.size() % 4 != 0) return out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t group = 0;
    std::size_t padding = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const char c = text[i + k];
      const bool pads = c == '=' && k >= 2 && i + 4 == text.size();
      const std::size_t digit = pads ? 0 : kDigits.find(c);
      if (digit == std::string_view::npos || (!pads && padding > 0)) return {};
      if (pads) ++padding;
      group = group << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t k = 0; k + padding < 3; ++k) {
      out.push_back(static_cast<char>(group >> (16 - 8 * k)));
    }
  }
  return out;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < n ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out.push_back(k <= n ? kDigits[group >> (18 - 6 * k) & 63] : '=');
    }
  }
  return out;
}

std::string vector_text(const std::vector<float>& vector) {
  const std::string_view bytes(reinterpret_cast<const char*>(vector.data()),
                               vector.size() * sizeof(float));
  return std::string(kHead) + to_base64(bytes) + std::string(kTail);
}

std::vector<float> read_vector(std::string_view extra) {
  std::vector<float> vector;
  if (!extra.starts_with(kHead) || !extra.ends_with(kTail)) return vector;
  extra.remove_prefix(kHead.size());
  extra.remove_suffix(kTail.size());
  const std::string bytes = from_base64(extra);
  if (bytes.size() % sizeof(float) != 0) return vector;
  vector.resize(bytes.size() / sizeof(float));
  if (!vector.empty()) std::memcpy(vector.data(), bytes.data(), bytes.size());
  return vector;
}

}  // namespace holdfast::wire
