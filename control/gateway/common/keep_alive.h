#pragma once
// How long a model stays loaded after a request, as Ollama's clients write it.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace holdfast::gateway {

inline constexpr std::int64_t kKeepAliveMsMax = 31'536'000'000;  // a year
inline constexpr const char* kKeepAliveForm =
    "must be seconds, or a duration as \"5m\" or \"1h30m\"; negative: without end";

/// Returns milliseconds of a number of seconds or of a text of Go's durations ("1h30m", "250ms",
/// "-1m"), at most kKeepAliveMsMax; -1 for any negative one: without end. nullopt: it is neither.
std::optional<std::int64_t> parse_keep_alive(const nlohmann::ordered_json& value);

}  // namespace holdfast::gateway
