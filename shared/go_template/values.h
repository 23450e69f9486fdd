#pragma once
// Values of a Go template as expressions of Jinja, with the types that they have in Ollama: they
// decide how a value is compared and printed, and that a name exists.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/go_template/syntax.h"

namespace holdfast::go_template {

/// Types of values. kMixed: one of several, which can only be tested.
enum class Type : std::uint8_t {
  kNone,  // a name that the template's data lacks
  kText,
  kInteger,
  kBool,
  kMixed,
  kRoot,
  kMessages,
  kMessage,
  kCalls,
  kCall,
  kCallFunction,
  kArguments,
  kTools,
  kTool,
  kToolFunction,
  kSchema,
};

/// An expression of Jinja that can stand as an operand anywhere.
struct Value {
  std::string text;
  Type type = Type::kNone;
  std::optional<bool> constant = {};  // whether it counts as true, where that is known
};

/// Returns a string of Jinja.
std::string quoted(std::string_view text);

/// Makes values of expressions, and knows the variables and the dot.
class Values {
 public:
  /// With messages the data is that of a conversation, else that of one turn.
  explicit Values(bool with_messages);

  void open_scope() { scopes_.emplace_back(); }
  void close_scope() { scopes_.pop_back(); }
  /// Returns the name under which a new variable is kept.
  Result<std::string> declare(const std::string& name, Type type);
  /// Returns the name of a variable that gets another value of its type.
  Result<std::string> assigned(const std::string& name, Type type, int line) const;
  Result<Value> variable(const std::string& name, int line) const;
  /// Names that nothing else has: an attribute of the namespace, a plain one.
  std::string fresh() { return "go." + fresh_name(); }
  std::string fresh_name() { return "v" + std::to_string(++names_); }

  Value exchange_dot(Value dot) { return std::exchange(dot_, std::move(dot)); }

  /// Errors of to_jinja().
  Result<Value> value_of(const Expr& expr);
  /// Returns the expression that prints the value as Go does.
  Result<std::string> printed(const Value& value, int line) const;
  Result<Type> element_of(Type list, int line) const;

 private:
  struct Variable {
    std::string target;
    Type type;
  };
  using Arguments = std::vector<Value>;

  Result<Value> base_of(const Expr& expr);
  Result<Value> field_of(const Value& value, const std::string& name, int line) const;
  Value root_field(const std::string& name) const;
  Result<Value> call(const Expr& expr);
  Result<Value> logic(const Expr& expr, const Arguments& args) const;
  Result<Value> negation(const Expr& expr, const Arguments& args) const;
  Result<Value> equality(const Expr& expr, const Arguments& args) const;
  Result<Value> order(const Expr& expr, const Arguments& args) const;
  Result<Value> length(const Expr& expr, const Arguments& args) const;
  Result<Value> slice(const Expr& expr, const Arguments& args) const;
  Result<Value> index(const Expr& expr, const Arguments& args) const;
  Result<Value> json(const Expr& expr, const Arguments& args) const;
  Result<Value> printf(const Expr& expr, const Arguments& args) const;
  Result<Value> current_date(const Expr& expr, const Arguments& args) const;

  bool with_messages_;
  Value dot_;
  std::vector<std::map<std::string, Variable>> scopes_;
  int names_ = 0;
};

}  // namespace holdfast::go_template
