#pragma once
// Bytes of others in messages for people.

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast {

/// Valid UTF-8 of at most `most` bytes: each byte that belongs to no character is "?", and of a
/// longer text the beginning stays, with "..." behind it. `most` is at least 3.
std::string readable(std::string_view text, std::size_t most);

}  // namespace holdfast
