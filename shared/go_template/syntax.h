#pragma once
// The syntax of Go's text/template: a text as a tree of nodes.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::go_template {

/// An expression. `fields` are read of its value, one after the other.
struct Expr {
  enum class Kind : std::uint8_t { kDot, kVariable, kText, kInteger, kBool, kNil, kCall };
  Kind kind = Kind::kDot;
  std::string name;         // of a variable without $, of a function; the text
  std::int64_t number = 0;  // also of a bool
  std::vector<Expr> args;   // of a call
  std::vector<std::string> fields;
  int line = 1;
};

/// A node of the template.
struct Node {
  enum class Kind : std::uint8_t { kText, kPrint, kIf, kRange, kWith, kBreak, kContinue };
  Kind kind = Kind::kText;
  std::string text;
  std::vector<std::string> variables;  // that the pipeline's value goes to, without $
  bool declares = false;               // by :=, else by =
  Expr pipeline;
  std::vector<Node> list;
  std::vector<Node> other;  // after else
  bool has_other = false;
  int line = 1;
};

/// Parses a template. Errors of to_jinja().
Result<std::vector<Node>> parse(std::string_view text);

/// Returns an error about a line.
Error error_at(Errc code, int line, std::string_view what);

}  // namespace holdfast::go_template
