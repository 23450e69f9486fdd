#pragma once
// Python's string operations on UTF-8.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::text::jinja {

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
/// Takes characters of `set` (empty = white space) off one or both ends.
std::string strip(std::string_view text, std::string_view set, bool left, bool right);
/// str.split: by `separator`, or by runs of white space when it is null; at most `max` cuts (< 0:
/// all).
std::vector<std::string> split(std::string_view text, const std::string* separator,
                               std::int64_t max);
std::string replace_all(std::string_view text, std::string_view from, std::string_view to,
                        std::int64_t max);

}  // namespace holdfast::text::jinja
