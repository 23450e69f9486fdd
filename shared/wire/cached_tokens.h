#pragma once
// Carries the number of a prompt's tokens that came from the prefix cache, for a request's usage:
// part of the `extra` of the first token after the prompt. So it is stored with that token and is
// the same whenever the answer is replayed.

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::wire {

/// Returns `extra` (a JSON object, or empty) with "cached" as its first member.
std::string with_cached_tokens(std::string extra, std::int64_t tokens);
/// Returns 0 if the member is absent.
std::int64_t cached_tokens_of(std::string_view extra);

}  // namespace holdfast::wire
