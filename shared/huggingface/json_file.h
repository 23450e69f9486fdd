#pragma once
// JSON of a model folder: read whole, with bounds on size and nesting, so that a hostile file costs
// no more than a large honest one.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::huggingface {

inline constexpr std::uint64_t kConfigBytesMax = 4u << 20;
inline constexpr std::uint64_t kTokenizerBytesMax = 128u << 20;

/// Returns the whole file. kIo (missing, unreadable, not a regular file), kFileInvalid (longer than
/// `most`).
Result<std::string> read_text(const std::string& path, std::uint64_t most);

/// Parses an object. kFileInvalid for text that is not a JSON object or is nested deeper than any
/// model's file. `name` appears in errors. Strings that are not UTF-8 are refused.
Result<nlohmann::json> parse_object(std::string_view text, const std::string& name);
/// Parses an array in the same way.
Result<nlohmann::json> parse_array(std::string_view text, const std::string& name);

}  // namespace holdfast::huggingface
