#include "shared/wire/cached_tokens.h"

#include <charconv>

namespace holdfast::wire {
namespace {

constexpr std::string_view kMember = "{\"cached\":";

}  // namespace

std::string with_cached_tokens(std::string extra, std::int64_t tokens) {
  std::string out = std::string(kMember) + std::to_string(tokens);
  if (extra.size() <= 2) return out + "}";  // "" or "{}"
  out += ",";
  out.append(extra, 1);
  return out;
}

std::int64_t cached_tokens_of(std::string_view extra) {
  if (!extra.starts_with(kMember)) return 0;
  std::int64_t tokens = 0;
  const char* begin = extra.data() + kMember.size();
  const auto read = std::from_chars(begin, extra.data() + extra.size(), tokens);
  return read.ec == std::errc{} && tokens > 0 ? tokens : 0;
}

}  // namespace holdfast::wire
