#include "shared/gguf/part_name.h"

#include <cstdio>
#include <string_view>

namespace holdfast::gguf {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::size_t kDigits = 5;

/// Takes the number before the end of `text` off it; -1 if there is none.
int take_number(std::string_view& text) {
  if (text.size() < kDigits) return -1;
  int n = 0;
  for (const char c : text.substr(text.size() - kDigits)) {
    if (c < '0' || c > '9') return -1;
    n = n * 10 + (c - '0');
  }
  text.remove_suffix(kDigits);
  return n;
}

}  // namespace

std::string PartName::of(int n) const {
  char numbers[32];
  std::snprintf(numbers, sizeof numbers, "-%05d-of-%05d", n, count);
  return stem + numbers + std::string(kEnding);
}

std::optional<PartName> part_name(const std::string& path) {
  std::string_view left = path;
  if (!left.ends_with(kEnding)) return std::nullopt;
  left.remove_suffix(kEnding.size());
  PartName out;
  out.count = take_number(left);
  constexpr std::string_view kOf = "-of-";
  if (out.count < 1 || !left.ends_with(kOf)) return std::nullopt;
  left.remove_suffix(kOf.size());
  out.number = take_number(left);
  if (out.number < 1 || out.number > out.count || !left.ends_with('-')) return std::nullopt;
  left.remove_suffix(1);
  out.stem = std::string(left);
  return out;
}

}  // namespace holdfast::gguf
