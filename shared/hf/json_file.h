#pragma once
// JSON of a model folder: read whole, with bounds on size and nesting, so that
// a hostile file costs no more than a large honest one.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::hf {

inline constexpr std::uint64_t kConfigBytesMax = 4u << 20;
inline constexpr std::uint64_t kTokenizerBytesMax = 128u << 20;

/// The whole file. kIo (missing, unreadable, no regular file), kFileInvalid
/// (longer than `most`).
Result<std::string> read_text(const std::string& path, std::uint64_t most);

/// kFileInvalid for text that is no JSON object or is nested deeper than any
/// model's file. `name` stands in errors. Strings that are not UTF-8 are
/// refused.
Result<nlohmann::json> parse_object(std::string_view text, const std::string& name);
/// The same for an array.
Result<nlohmann::json> parse_array(std::string_view text, const std::string& name);

}  // namespace holdfast::hf
