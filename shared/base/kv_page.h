#pragma once
// The size of a page of keys and values, the unit in which sequences take KV memory.

#include <cstdint>

namespace holdfast {

/// Tokens of a KV page, in every engine, backend and plan.
inline constexpr std::int64_t kPageTokens = 64;

}  // namespace holdfast
