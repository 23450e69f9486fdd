#pragma once
// How many tokens of a prompt were not computed because a prefix of it was known, on their way to
// whoever shows a request's usage: part of the `extra` of the first token behind the prompt, so it
// is stored with that token and the same whenever the answer is shown.

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::wire {

/// `extra` (a JSON object, or empty) with "cached" as its first member.
std::string with_cached_tokens(std::string extra, std::int64_t tokens);
/// 0: it says nothing of that.
std::int64_t cached_tokens_of(std::string_view extra);

}  // namespace holdfast::wire
