#pragma once
// A JSON document as a tree that keeps what schemas need: the order of members and the digits of
// numbers.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::grammar {

struct JsonTree {
  enum class Kind : std::uint8_t { kNull, kBoolean, kNumber, kString, kArray, kObject };
  struct Member;
  Kind kind = Kind::kNull;
  bool boolean = false;
  std::string text;             // of a string; of a number its digits, as in the source
  std::vector<JsonTree> items;  // of an array; of an object the values, in the order of `names`
  std::vector<std::string> names;

  bool is(Kind k) const { return kind == k; }
  /// The member of an object; null if there is none (or this is no object).
  const JsonTree* find(std::string_view name) const;
  /// The same, but null says as little as no member.
  const JsonTree* find_set(std::string_view name) const;
};

/// kInvalidRequest: not JSON (with the byte), nested deeper than `depth_max`, a name twice in one
/// object.
Result<JsonTree> parse_json_tree(std::string_view text, std::uint32_t depth_max);

/// Compact JSON, numbers by their value. With the members sorted by name it is the same text for
/// equal values.
std::string canonical_json(const JsonTree& tree, bool sorted = true);

}  // namespace holdfast::grammar
