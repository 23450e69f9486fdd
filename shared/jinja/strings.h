#pragma once
// Python's string operations on UTF-8.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::text::jinja {

/// Returns the code point at the start of valid UTF-8; utf8_of() is its inverse.
std::int32_t point_of(std::string_view utf8);
std::string utf8_of(std::int32_t point);
/// True for a code point of Unicode's categories L*; is_numeric() for those of N*.
bool is_letter(std::int32_t point);
bool is_numeric(std::int32_t point);
/// Implement str.lower and str.upper, where a character may become several.
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
/// Returns the text with the first character in title case, the rest in lower case.
std::string capitalize(std::string_view text);
/// Returns the text with `before` and `after` times `fill` around it; bounded.
std::string pad(std::string_view text, std::int64_t before, std::int64_t after,
                std::string_view fill);
/// Returns the number of code points of valid UTF-8: Python's len().
std::int64_t point_count(std::string_view text);
/// Removes characters of `set` (empty = white space) from one or both ends.
std::string strip(std::string_view text, std::string_view set, bool left, bool right);
/// Implements str.split: by `separator`, or by runs of white space when it is null; at most `max`
/// cuts (< 0: all).
std::vector<std::string> split(std::string_view text, const std::string* separator,
                               std::int64_t max);
/// Implements str.splitlines.
std::vector<std::string> split_lines(std::string_view text, bool keepends);
std::string replace_all(std::string_view text, std::string_view from, std::string_view to,
                        std::int64_t max);

}  // namespace holdfast::text::jinja
