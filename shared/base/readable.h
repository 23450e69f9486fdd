#pragma once
// Foreign bytes in messages for people.

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast {

/// Returns valid UTF-8 of at most `most` bytes: each byte that belongs to no character is "?", and
/// a longer text is cut and ends with "...". `most` is at least 3.
std::string readable(std::string_view text, std::size_t most);

}  // namespace holdfast
