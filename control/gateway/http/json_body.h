#pragma once
// JSON bodies: the text of one as an object, and strings of one that is written.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

/// Parses a JSON object. Returns false if it is not UTF-8, no JSON, beyond the limits or no object;
/// `error` says where and why.
bool parse_json_object(std::string_view text, nlohmann::ordered_json* out, FieldError* error,
                       const JsonLimits& limits = kBodyLimits);

/// Appends `text` (valid UTF-8) as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace holdfast::gateway
