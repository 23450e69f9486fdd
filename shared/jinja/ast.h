#pragma once
// The syntax tree of a template. Built by jinja_parser, walked by jinja_eval.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shared/jinja/value.h"

namespace holdfast::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// The kinds of expressions; Expr says which operands each has.
enum class ExprKind : std::uint8_t {
  kLiteral,
  kName,
  kList,
  kTuple,
  kDict,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kNot,
  kNegate,
  kPlus,
  kBinary,
  kAnd,
  kOr,
  kCompare,
  kConditional
};

/// An expression. The kind decides which members are used:
/// kAttribute args[0].name · kItem args[0][args[1]] · kSlice args[0][args[1]:args[2]:args[3]] ·
/// kCall args[0](args[1..], named) · kFilter args[0]|name(args[1..], named) · kTest likewise ·
/// kBinary args[0] name args[1] · kCompare args[0] (operators[i] args[i+1])… ·
/// kConditional args[0] if args[1] else args[2] (may be null) · kDict args = k0 v0 k1 v1 …
struct Expr {
  ExprKind kind;
  int line = 0;
  Value literal;
  std::string name;
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> named;
  std::vector<std::string> operators;
};

struct Node;
using NodePtr = std::unique_ptr<Node>;
using Body = std::vector<NodePtr>;

/// The kinds of statements and text of a template.
enum class NodeKind : std::uint8_t {
  kText,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue,
  kScope
};

/// A parameter of a macro or of a call block.
struct MacroParameter {
  std::string name;
  ExprPtr fallback;  // null = required (undefined if not given)
};

/// A statement or a run of text. A kind uses the members that name it and leaves the others empty.
struct Node {
  NodeKind kind;
  int line = 0;
  std::string text;   // kText; macro's name
  ExprPtr expr;       // output, iterable, condition, value, call
  ExprPtr condition;  // `for … if condition`
  ExprPtr target;     // of set, for: a name, tuple of names, or attribute of a namespace
  Body body;
  Body otherwise;
  std::vector<std::pair<ExprPtr, Body>> branches;            // if/elif
  std::vector<MacroParameter> parameters;                    // macro, call(…)
  std::vector<std::pair<std::string, ExprPtr>> assignments;  // with
};

/// Parses a template. Throws TemplateError with the line.
Body parse_template(std::string_view source);

}  // namespace holdfast::text::jinja
