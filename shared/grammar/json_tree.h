#pragma once
// A JSON document as a tree with what schemas need: the order of members and the digits of numbers.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::grammar {

/// A JSON value with all that it contains.
struct JsonTree {
  enum class Kind : std::uint8_t { kNull, kBoolean, kNumber, kString, kArray, kObject };
  struct Member;
  Kind kind = Kind::kNull;
  bool boolean = false;
  std::string text;             // of a string; for a number its digits, as in the source
  std::vector<JsonTree> items;  // of an array; for an object the values, in the order of `names`
  std::vector<std::string> names;

  bool is(Kind k) const { return kind == k; }
  /// Returns the member of an object; null if there is none (or this is not an object).
  const JsonTree* find(std::string_view name) const;
  /// Returns the same, but treats a null value as no member.
  const JsonTree* find_set(std::string_view name) const;
};

/// Parses a document. kInvalidRequest: not JSON (with the byte), nested deeper than `depth_max`, a
/// name twice in one object.
Result<JsonTree> parse_json_tree(std::string_view text, std::uint32_t depth_max);

/// Returns compact JSON with numbers by their value. With the members sorted by name, equal values
/// have the same text.
std::string canonical_json(const JsonTree& tree, bool sorted = true);

}  // namespace holdfast::grammar
