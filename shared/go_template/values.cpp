#include "shared/go_template/values.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace holdfast::go_template {
namespace {

/// A field of a type: its own type, and what reads it in Jinja, after the value's text.
struct Field {
  Type of;
  std::string_view name;
  Type type;
  std::string_view read;
};
constexpr Field kFields[] = {
    {Type::kMessage, "Role", Type::kText, ".role"},
    {Type::kMessage, "Content", Type::kText, ".content"},
    {Type::kMessage, "Thinking", Type::kText, ".reasoning_content"},
    {Type::kMessage, "ToolCalls", Type::kCalls, ".tool_calls"},
    {Type::kMessage, "ToolName", Type::kText, ".name"},
    {Type::kMessage, "ToolCallID", Type::kText, ".tool_call_id"},
    {Type::kMessage, "Images", Type::kNone, ""},
    {Type::kCall, "ID", Type::kText, ".id|default('')"},
    {Type::kCall, "Function", Type::kCallFunction, ".function"},
    {Type::kCallFunction, "Name", Type::kText, ".name"},
    {Type::kCallFunction, "Arguments", Type::kArguments, ".arguments"},
    {Type::kTool, "Type", Type::kText, ".type"},
    {Type::kTool, "Function", Type::kToolFunction, ".function"},
    {Type::kToolFunction, "Name", Type::kText, ".name"},
    {Type::kToolFunction, "Description", Type::kText, ".description|default('')"},
    {Type::kToolFunction, "Parameters", Type::kSchema, ".parameters|default({})"},
};

/// A name of the data that a template gets. `in`: with messages, in a turn, or both.
struct Root {
  std::string_view name;
  Type type;
  bool with_messages, in_turn;
  std::string_view text;
};
constexpr Root kRoots[] = {
    {"Messages", Type::kMessages, true, false, "go.list"},
    {"System", Type::kText, true, false, "go.system"},
    {"System", Type::kText, false, true, "system"},
    {"Prompt", Type::kText, false, true, "prompt"},
    {"Response", Type::kText, true, false, "''"},
    {"Response", Type::kText, false, true, "response"},
    {"Tools", Type::kTools, true, false, "(tools|default([], true))"},
    {"Think", Type::kBool, true, true, "(enable_thinking|default(false) == true)"},
    {"IsThinkSet", Type::kBool, true, true, "(enable_thinking is defined)"},
    {"ThinkLevel", Type::kText, true, true, "(reasoning_effort|default('', true))"},
};

constexpr std::pair<Type, std::string_view> kTypeNames[] = {
    {Type::kNone, "a name without a value"},
    {Type::kText, "a text"},
    {Type::kInteger, "a number"},
    {Type::kBool, "a truth value"},
    {Type::kMixed, "a value of several types"},
    {Type::kRoot, "all data"},
    {Type::kMessages, "the messages"},
    {Type::kMessage, "a message"},
    {Type::kCalls, "the calls of tools"},
    {Type::kCall, "a call of a tool"},
    {Type::kCallFunction, "the function of a call"},
    {Type::kArguments, "arguments"},
    {Type::kTools, "the tools"},
    {Type::kTool, "a tool"},
    {Type::kToolFunction, "the function of a tool"},
    {Type::kSchema, "the parameters of a tool"},
};

std::string type_name(Type type) {
  const auto* found = std::ranges::find(kTypeNames, type, [](const auto& t) { return t.first; });
  return std::string(found->second);
}

bool is_list(Type type) {
  return type == Type::kMessages || type == Type::kCalls || type == Type::kTools;
}
bool is_plain(Type type) {
  return type == Type::kText || type == Type::kInteger || type == Type::kBool;
}
bool is_json(Type type) {
  return type == Type::kArguments || type == Type::kTools || type == Type::kTool ||
         type == Type::kToolFunction || type == Type::kSchema;
}
/// Structs count as true, whatever is in them.
bool is_struct(Type type) {
  return type == Type::kMessage || type == Type::kCall || type == Type::kCallFunction ||
         type == Type::kTool || type == Type::kToolFunction || type == Type::kRoot;
}

Error unsupported(int line, const std::string& what) {
  return error_at(Errc::kUnsupported, line, what);
}

Error wrong_count(int line, const std::string& name) {
  return error_at(Errc::kInvalidRequest, line, name + " has a wrong number of arguments");
}

/// JSON as Go writes it: without spaces, and safe within HTML.
std::string json_text(const std::string& value) {
  return "(" + value +
         R"(|tojson(separators=(',', ':'))|replace('<', '\\u003c')|replace('>', '\\u003e'))" +
         R"(|replace('&', '\\u0026')|replace('\u2028', '\\u2028')|replace('\u2029', '\\u2029')))";
}

/// Translates the form of a printf to texts that are joined.
class PrintForm {
 public:
  /// `args`: the form, and what it prints.
  explicit PrintForm(const std::vector<Value>& args) : args_(args) {}

  Result<std::string> translate(std::string_view form, int line) {
    for (std::size_t i = 0; i < form.size(); ++i) {
      const bool verb = form[i] == '%' && form.substr(i, 2) != "%%";
      if (verb) {
        ++i;
        HOLDFAST_CHECKED(add_value(i < form.size() ? form[i] : ' ', line));
      } else {
        if (form[i] == '%') ++i;
        plain_.push_back(form[i]);
      }
    }
    end_plain();
    if (next_ != args_.size()) return wrong_count(line, "printf");
    return "(" + text_ + ")";
  }

 private:
  static bool fits(char verb, Type type) {
    if (type == Type::kText) return verb == 's' || verb == 'v';
    return type == Type::kInteger && (verb == 'd' || verb == 'v');
  }
  void end_plain() {
    if (!plain_.empty()) text_ += " ~ " + quoted(std::exchange(plain_, {}));
  }
  Result<void> add_value(char verb, int line) {
    const Type type = next_ < args_.size() ? args_[next_].type : Type::kNone;
    if (!fits(verb, type)) {
      return unsupported(line, std::string("uses printf with %") + verb + " of " + type_name(type));
    }
    end_plain();
    text_ += " ~ " + args_[next_].text;
    ++next_;
    return {};
  }

  const std::vector<Value>& args_;
  std::size_t next_ = 1;
  std::string text_ = "''", plain_;
};

Value constant(bool truth) {
  return {truth ? "true" : "false", Type::kBool, truth};
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

Values::Values(bool with_messages)
    : with_messages_(with_messages), dot_{"", Type::kRoot, true}, scopes_(1) {}

Result<std::string> Values::declare(const std::string& name, Type type) {
  std::string target = fresh();
  scopes_.back()[name] = {target, type};
  return target;
}

Result<std::string> Values::assigned(const std::string& name, Type type, int line) const {
  HOLDFAST_TRY(const Value found, variable(name, line));
  if (found.type == type) return found.text;
  return unsupported(
      line, "assigns " + type_name(type) + " to $" + name + ", which is " + type_name(found.type));
}

Result<Value> Values::variable(const std::string& name, int line) const {
  if (name.empty()) return Value{"", Type::kRoot, true};
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->find(name);
    if (found == scope->end()) continue;
    Value value{found->second.target, found->second.type, std::nullopt};
    if (value.type == Type::kNone) value.constant = false;
    return value;
  }
  return error_at(Errc::kInvalidRequest, line, "undefined variable $" + name);
}

Value Values::root_field(const std::string& name) const {
  for (const Root& root : kRoots) {
    const bool there = with_messages_ ? root.with_messages : root.in_turn;
    if (!there || root.name != name) continue;
    Value value{std::string(root.text), root.type, std::nullopt};
    if (root.type == Type::kMessages) value.constant = true;  // a chat has at least one
    if (root.text == "''") value.constant = false;
    return value;
  }
  return {"''", Type::kNone, false};
}

Result<Value> Values::field_of(const Value& value, const std::string& name, int line) const {
  if (value.type == Type::kRoot) return root_field(name);
  const auto* found = std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& f) {
    return f.of == value.type && f.name == name;
  });
  if (found == std::end(kFields)) {
    return unsupported(line, "reads ." + name + " of " + type_name(value.type));
  }
  if (found->type == Type::kNone) return Value{"''", Type::kNone, false};
  Value out{"(" + value.text + std::string(found->read) + ")", found->type, std::nullopt};
  if (is_struct(out.type)) out.constant = true;
  return out;
}

Result<Value> Values::base_of(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::kDot:
      return dot_;
    case Expr::Kind::kVariable:
      return variable(expr.name, expr.line);
    case Expr::Kind::kText:
      return Value{quoted(expr.name), Type::kText, !expr.name.empty()};
    case Expr::Kind::kInteger:
      return Value{"(" + std::to_string(expr.number) + ")", Type::kInteger, expr.number != 0};
    case Expr::Kind::kBool:
      return constant(expr.number != 0);
    case Expr::Kind::kNil:
      return unsupported(expr.line, "uses nil");
    case Expr::Kind::kCall:
      return call(expr);
  }
  return Value{};
}

Result<Value> Values::value_of(const Expr& expr) {
  HOLDFAST_TRY(Value value, base_of(expr));
  for (const std::string& name : expr.fields) {
    HOLDFAST_TRY(value, field_of(value, name, expr.line));
  }
  return value;
}

Result<std::string> Values::printed(const Value& value, int line) const {
  if (value.type == Type::kText || value.type == Type::kInteger) return value.text;
  if (value.type == Type::kBool) return "('true' if " + value.text + " else 'false')";
  if (is_json(value.type)) return json_text(value.text);
  return unsupported(line, "prints " + type_name(value.type));
}

Result<Type> Values::element_of(Type list, int line) const {
  if (list == Type::kMessages) return Type::kMessage;
  if (list == Type::kCalls) return Type::kCall;
  if (list == Type::kTools) return Type::kTool;
  return unsupported(line, "ranges over " + type_name(list));
}

Result<Value> Values::call(const Expr& expr) {
  using Function = Result<Value> (Values::*)(const Expr&, const Arguments&) const;
  static constexpr std::pair<std::string_view, Function> kFunctions[] = {
      {"and", &Values::logic},
      {"or", &Values::logic},
      {"not", &Values::negation},
      {"eq", &Values::equality},
      {"ne", &Values::equality},
      {"lt", &Values::order},
      {"le", &Values::order},
      {"gt", &Values::order},
      {"ge", &Values::order},
      {"len", &Values::length},
      {"slice", &Values::slice},
      {"index", &Values::index},
      {"json", &Values::json},
      {"printf", &Values::printf},
      {"currentDate", &Values::current_date}};
  Arguments args;
  for (const Expr& arg : expr.args) {
    HOLDFAST_TRY(Value value, value_of(arg));
    args.push_back(std::move(value));
  }
  const auto* found =
      std::ranges::find(kFunctions, expr.name, [](const auto& f) { return f.first; });
  if (found == std::end(kFunctions)) {
    return unsupported(expr.line, "uses the function " + expr.name);
  }
  return (this->*found->second)(expr, args);
}

Result<Value> Values::current_date(const Expr& expr, const Arguments& args) const {
  if (!args.empty()) return wrong_count(expr.line, expr.name);
  return Value{"strftime_now('%Y-%m-%d')", Type::kText, true};
}

/// `and` and `or` give the argument that decides, as in Jinja.
Result<Value> Values::logic(const Expr& expr, const Arguments& args) const {
  if (args.empty()) return wrong_count(expr.line, expr.name);
  const bool decides = expr.name == "or";  // the truth that makes the others matter no more
  Arguments open;
  for (const Value& arg : args) {
    if (arg.constant && *arg.constant != decides) continue;
    open.push_back(arg);
    if (arg.constant) break;
  }
  if (open.empty()) return args.back();
  if (open.front().constant) return open.front();
  Value out{"", args.front().type, std::nullopt};
  for (const Value& arg : open) {
    out.text += (out.text.empty() ? "(" : " " + expr.name + " ") + arg.text;
  }
  out.text += ")";
  // Arguments of several types, or one that is left out: no value that could be printed.
  const bool printable = std::all_of(args.begin(), args.end(), [&](const Value& arg) {
    return arg.type == out.type && !arg.constant;
  });
  if (!printable) out.type = Type::kMixed;
  return out;
}

Result<Value> Values::negation(const Expr& expr, const Arguments& args) const {
  const int line = expr.line;
  if (args.size() != 1) return wrong_count(line, "not");
  if (args[0].constant) return constant(!*args[0].constant);
  return Value{"(not " + args[0].text + ")", Type::kBool, std::nullopt};
}

Result<Value> Values::equality(const Expr& expr, const Arguments& args) const {
  const std::string& name = expr.name;
  const int line = expr.line;
  if (args.size() < 2 || (name == "ne" && args.size() != 2)) return wrong_count(line, name);
  std::string text;
  for (std::size_t i = 1; i < args.size(); ++i) {
    if (!is_plain(args[0].type) || args[i].type != args[0].type) {
      return unsupported(
          line, "compares " + type_name(args[0].type) + " with " + type_name(args[i].type));
    }
    text += (text.empty() ? "" : " or ") + args[0].text + (name == "eq" ? " == " : " != ") +
            args[i].text;
  }
  return Value{"(" + text + ")", Type::kBool, std::nullopt};
}

Result<Value> Values::order(const Expr& expr, const Arguments& args) const {
  const std::string& name = expr.name;
  const int line = expr.line;
  constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
      {"lt", " < "}, {"le", " <= "}, {"gt", " > "}, {"ge", " >= "}};
  if (args.size() != 2) return wrong_count(line, name);
  const bool ordered = args[0].type == Type::kText || args[0].type == Type::kInteger;
  if (!ordered || args[0].type != args[1].type) {
    return unsupported(line,
                       "orders " + type_name(args[0].type) + " and " + type_name(args[1].type));
  }
  const auto* sign = std::ranges::find(kSigns, name, [](const auto& s) { return s.first; });
  return Value{"(" + args[0].text + std::string(sign->second) + args[1].text + ")", Type::kBool,
               std::nullopt};
}

/// Go counts the bytes of a text, Jinja its characters.
Result<Value> Values::length(const Expr& expr, const Arguments& args) const {
  const int line = expr.line;
  if (args.size() != 1) return wrong_count(line, "len");
  if (!is_list(args[0].type)) return unsupported(line, "uses len of " + type_name(args[0].type));
  return Value{"(" + args[0].text + "|length)", Type::kInteger, std::nullopt};
}

Result<Value> Values::slice(const Expr& expr, const Arguments& args) const {
  const int line = expr.line;
  if (args.empty() || args.size() > 3) return wrong_count(line, "slice");
  if (!is_list(args[0].type)) return unsupported(line, "uses slice of " + type_name(args[0].type));
  std::string bounds[2];
  for (std::size_t i = 1; i < args.size(); ++i) {
    if (args[i].type != Type::kInteger) {
      return unsupported(line, "slices by " + type_name(args[i].type));
    }
    bounds[i - 1] = args[i].text;
  }
  return Value{"(" + args[0].text + "[" + bounds[0] + ":" + bounds[1] + "])", args[0].type,
               std::nullopt};
}

Result<Value> Values::index(const Expr& expr, const Arguments& args) const {
  const int line = expr.line;
  if (args.size() != 2) {
    return args.size() < 2 ? wrong_count(line, "index")
                           : unsupported(line, "uses index with several numbers");
  }
  if (args[1].type != Type::kInteger || !is_list(args[0].type)) {
    return unsupported(
        line, "uses index of " + type_name(args[0].type) + " by " + type_name(args[1].type));
  }
  HOLDFAST_TRY(const Type element, element_of(args[0].type, line));
  return Value{"(" + args[0].text + "[" + args[1].text + "])", element, true};
}

Result<Value> Values::json(const Expr& expr, const Arguments& args) const {
  const int line = expr.line;
  if (args.size() != 1) return wrong_count(line, "json");
  if (!is_plain(args[0].type) && !is_json(args[0].type)) {
    return unsupported(line, "writes " + type_name(args[0].type) + " as JSON");
  }
  return Value{json_text(args[0].text), Type::kText, true};
}

/// Translates a form of texts and whole numbers.
Result<Value> Values::printf(const Expr& expr, const Arguments& args) const {
  if (args.empty()) return wrong_count(expr.line, "printf");
  if (expr.args[0].kind != Expr::Kind::kText) {
    return unsupported(expr.line, "uses printf with a form that is no string");
  }
  PrintForm form(args);
  HOLDFAST_TRY(std::string text, form.translate(expr.args[0].name, expr.line));
  return Value{std::move(text), Type::kText, std::nullopt};
}

}  // namespace holdfast::go_template
