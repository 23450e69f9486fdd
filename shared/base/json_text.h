#pragma once
// The one door for JSON texts. A text is measured before anything is built of it: its bytes, how
// deep it is nested, the members of its objects, its values. What passes can be copied, written
// and thrown away on any stack, as libraries do that by recursion. tests/tidy forbids other doors.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast {

struct JsonLimits {
  std::size_t bytes_max = std::size_t{1} << 30;
  int depth_max = 64;                 // arrays and objects in each other
  std::size_t members_max = 1 << 20;  // of one object
  std::size_t values_max = std::size_t{1} << 26;
  /// Names compared while ordered objects are built: each new member is compared with those before.
  std::size_t compares_max = std::size_t{1} << 40;
};

/// Documents of our own processes and files.
inline constexpr JsonLimits kDocumentLimits{};
/// Words of a model or a client: what may stand in a body, or in a text inside of one.
inline constexpr JsonLimits kBodyLimits{std::size_t{64} << 20, 32, 1'024, std::size_t{1} << 20,
                                        std::size_t{4} << 20};

/// What a text would need; for a text that is not JSON, up to the place where that shows.
struct JsonSize {
  int depth = 0;
  std::size_t values = 0;
  std::size_t members = 0;  // of the largest object
};

/// kInvalidRequest with the byte and the bound that it exceeds. Syntax is not looked at. Reads the
/// text once, keeps a few bytes a level, stops at the first bound.
Result<JsonSize> measure_json(std::string_view text, const JsonLimits& limits);

/// The value, or kInvalidRequest: what is wrong, and where, in few words. `Json` is
/// nlohmann::json or nlohmann::ordered_json.
template <class Json>
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = kDocumentLimits);

/// The same for callers that look at the kind anyway: a discarded value (it is of no kind) instead
/// of an error.
template <class Json>
Json try_parse_json(std::string_view text, const JsonLimits& limits = kDocumentLimits);

/// Whether parse_json would succeed; builds nothing.
bool is_json(std::string_view text, const JsonLimits& limits = kDocumentLimits);

/// The text that the object `text` has under `name`, its first if there are several. Builds
/// nothing else, so that the depth and size of the rest do not matter; `text` may be cut off.
std::optional<std::string> find_text_member(std::string_view text, std::string_view name);

}  // namespace holdfast
