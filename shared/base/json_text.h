#pragma once
// The only parser for JSON texts. A text is measured before anything is built of it: its bytes, its
// depth, the members of its objects, its values. Text that passes can be copied, written and
// destroyed on any stack, as libraries do that by recursion. tests/tidy forbids other parsers.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast {

/// The bounds of a JSON text.
struct JsonLimits {
  std::size_t bytes_max = std::size_t{1} << 30;
  int depth_max = 64;                 // nested arrays and objects
  std::size_t members_max = 1 << 20;  // of one object
  std::size_t values_max = std::size_t{1} << 26;
  /// Name comparisons while ordered objects are built: each new member is compared with those
  /// before.
  std::size_t compares_max = std::size_t{1} << 40;
};

/// Limits for documents of our own processes and files.
inline constexpr JsonLimits kDocumentLimits{};
/// Limits for texts of a model or a client: in a body, or in a text inside of one.
inline constexpr JsonLimits kBodyLimits{std::size_t{64} << 20, 32, 1'024, std::size_t{1} << 20,
                                        std::size_t{4} << 20};

/// The size that a text has; for a text that is not JSON, up to the place where that shows.
struct JsonSize {
  int depth = 0;
  std::size_t values = 0;
  std::size_t members = 0;  // of the largest object
};

/// Returns kInvalidRequest with the byte and the bound that it exceeds. Does not check syntax.
/// Reads the text once, stores a few bytes for each level, stops at the first bound.
Result<JsonSize> measure_json(std::string_view text, const JsonLimits& limits);

/// Returns the value, or kInvalidRequest with a short text that says what is wrong and where.
/// `Json` is nlohmann::json or nlohmann::ordered_json.
template <class Json>
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = kDocumentLimits);

/// Does the same for callers that check the type anyway: a discarded value (it has no type) instead
/// of an error.
template <class Json>
Json try_parse_json(std::string_view text, const JsonLimits& limits = kDocumentLimits);

/// Returns true if parse_json would succeed; builds nothing.
bool is_json(std::string_view text, const JsonLimits& limits = kDocumentLimits);

/// Returns the string that the object `text` has under `name`, the first if there are several.
/// Builds nothing else, so that the depth and size of the rest do not matter; `text` may be cut
/// off.
std::optional<std::string> find_text_member(std::string_view text, std::string_view name);

}  // namespace holdfast
