#pragma once
// The words of Go's text/template: texts, and actions of tokens.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::go_template {

/// A token of an action. `text` is a name without its dot or $, or the value of a string.
struct Token {
  enum class Kind : std::uint8_t { kWord, kField, kDot, kVariable, kText, kInteger, kSymbol };
  Kind kind = Kind::kSymbol;
  std::string text;
  std::int64_t number = 0;
  bool after_space = false;
};

/// A text outside of actions, white space trimmed as its neighbours want, or an action.
struct Item {
  bool is_action = false;
  std::string text;
  std::vector<Token> tokens;
  int line = 1;
};

/// Reads the items of a template; comments are left out. Errors of to_jinja().
Result<std::vector<Item>> read_items(std::string_view text);

}  // namespace holdfast::go_template
