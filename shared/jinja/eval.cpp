#include "shared/jinja/eval.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shared/jinja/builtins.h"
#include "shared/jinja/format.h"

namespace holdfast::text::jinja {
namespace {

/// The names of one block; lookups continue outwards. Macros defined in it keep it alive.
struct Scope {
  Dict names;
  std::shared_ptr<Scope> parent;
  const Value* find(std::string_view name) const {
    for (const Scope* s = this; s != nullptr; s = s->parent.get()) {
      if (const Value* v = s->names.find(name)) return v;
    }
    return nullptr;
  }
};
using ScopePtr = std::shared_ptr<Scope>;

constexpr int kNestingMax = 2000;

enum class Flow : std::uint8_t { kNext, kBreak, kContinue };

/// Makes the `loop` variable. `changed` is the last argument of loop.changed, shared by all rounds.
Value make_loop(const List& items, std::size_t i, const std::shared_ptr<List>& changed) {
  const auto n = static_cast<std::int64_t>(items.size());
  const auto at = static_cast<std::int64_t>(i);
  Dict loop;
  loop.set("index", Value::integer(at + 1));
  loop.set("index0", Value::integer(at));
  loop.set("revindex", Value::integer(n - at));
  loop.set("revindex0", Value::integer(n - at - 1));
  loop.set("first", Value::boolean(i == 0));
  loop.set("last", Value::boolean(at + 1 == n));
  loop.set("length", Value::integer(n));
  loop.set("depth", Value::integer(1));
  loop.set("depth0", Value::integer(0));
  loop.set("previtem",
           i > 0 ? items[i - 1] : Value::undefined_because("there is no previous item"));
  loop.set("nextitem",
           i + 1 < items.size() ? items[i + 1] : Value::undefined_because("there is no next item"));
  loop.set("cycle", Value::function([at](const Args& args) {
             if (args.positional.empty()) throw TemplateError("no items for cycling given");
             return args.positional[static_cast<std::size_t>(at) % args.positional.size()];
           }));
  loop.set("changed", Value::function([changed](const Args& args) {
             const bool same =
                 changed->size() == args.positional.size() &&
                 std::equal(changed->begin(), changed->end(), args.positional.begin(),
                            [](const Value& a, const Value& b) { return a.equals(b); });
             const bool first = changed->empty();
             if (!same) *changed = args.positional;
             return Value::boolean(first || !same);
           }));
  return Value::name_space(std::move(loop));
}

class Evaluator final : public Runtime {
 public:
  Evaluator(const Dict& globals, const std::string& date, const Bounds& bounds)
      : date_(date), bounds_(bounds), root_(std::make_shared<Scope>()) {
    root_->names = globals;
  }

  // Breaks cycles: a macro holds the scope that holds it; a namespace may hold itself, or a long
  // chain of others.
  ~Evaluator() override {
    for (const ScopePtr& scope : macro_scopes_) scope->names = Dict();
    for (const Value& space : name_spaces_) space.mutable_dict() = Dict();
  }

  std::string run(const Body& body) {
    std::string out;
    execute(body, root_, out);
    return out;
  }

  void spend(std::uint64_t n) override {
    steps_ += n;
    if (steps_ > bounds_.steps) {
      throw TemplateError("the template takes more than " + std::to_string(bounds_.steps) +
                          " steps");
    }
  }

 private:
  void append(std::string& out, std::string_view text) {
    written_ += text.size();
    if (written_ > bounds_.output_bytes) {
      throw TemplateError("the template writes more than " + std::to_string(bounds_.output_bytes) +
                          " bytes");
    }
    out += text;
  }

  Flow execute(const Body& body, const ScopePtr& scope, std::string& out) {
    for (const NodePtr& node : body) {
      spend(1);
      try {
        const Flow flow = execute_node(*node, scope, out);
        if (flow != Flow::kNext) return flow;
      } catch (TemplateError& e) {
        if (e.line == 0) e.line = node->line;
        throw;
      }
    }
    return Flow::kNext;
  }

  static ScopePtr inner(const ScopePtr& scope) {
    auto s = std::make_shared<Scope>();
    s->parent = scope;
    return s;
  }

  Flow execute_node(const Node& node, const ScopePtr& scope, std::string& out) {
    switch (node.kind) {
      case NodeKind::kText:
        append(out, node.text);
        return Flow::kNext;
      case NodeKind::kOutput:
        append(out, text_of(eval(*node.expr, scope)));
        return Flow::kNext;
      case NodeKind::kIf:
        for (const auto& [condition, body] : node.branches) {
          if (eval(*condition, scope).truthy()) return execute(body, scope, out);
        }
        return execute(node.otherwise, scope, out);
      case NodeKind::kFor:
        execute_for(node, scope, out);
        return Flow::kNext;
      case NodeKind::kSet:
        assign(*node.target, eval(*node.expr, scope), scope);
        return Flow::kNext;
      case NodeKind::kSetBlock:
        execute_set_block(node, scope);
        return Flow::kNext;
      case NodeKind::kMacro:
        macro_scopes_.push_back(scope);
        scope->names.set(node.text, make_macro(node, scope, node.text));
        return Flow::kNext;
      case NodeKind::kCallBlock:
        execute_call_block(node, scope, out);
        return Flow::kNext;
      case NodeKind::kFilterBlock: {
        append(out, text_of(filtered_body(node, scope)));
        return Flow::kNext;
      }
      case NodeKind::kWith: {
        const ScopePtr s = inner(scope);
        for (const auto& [name, expr] : node.assignments) s->names.set(name, eval(*expr, scope));
        return execute(node.body, s, out);
      }
      case NodeKind::kBreak:
        return Flow::kBreak;
      case NodeKind::kContinue:
        return Flow::kContinue;
      case NodeKind::kScope:
        return execute(node.body, scope, out);
    }
    return Flow::kNext;
  }

  void execute_for(const Node& node, const ScopePtr& scope, std::string& out) {
    List items = iterate(eval(*node.expr, scope));
    if (node.condition != nullptr) {
      List filtered;
      for (Value& item : items) {
        spend(1);
        const ScopePtr s = inner(scope);
        assign(*node.target, item, s);
        if (eval(*node.condition, s).truthy()) filtered.push_back(std::move(item));
      }
      items = std::move(filtered);
    }
    if (items.empty()) {
      execute(node.otherwise, inner(scope), out);
      return;
    }
    const auto changed = std::make_shared<List>();
    bool finished_one = false;  // Jinja2's `else` is for a loop that completed no round
    for (std::size_t i = 0; i < items.size(); ++i) {
      spend(1);
      const ScopePtr s = inner(scope);
      s->names.set("loop", make_loop(items, i, changed));
      assign(*node.target, items[i], s);
      const Flow flow = execute(node.body, s, out);
      if (flow == Flow::kNext) finished_one = true;
      if (flow == Flow::kBreak) break;
    }
    if (!finished_one) execute(node.otherwise, inner(scope), out);
  }

  Value filtered_body(const Node& node, const ScopePtr& scope) {
    std::string text;
    execute(node.body, inner(scope), text);
    if (node.expr == nullptr) return Value::string(std::move(text));
    const ScopePtr s = inner(scope);
    s->names.set("\x01 body", Value::string(std::move(text)));
    return eval(*node.expr, s);
  }
  void execute_set_block(const Node& node, const ScopePtr& scope) {
    assign(*node.target, filtered_body(node, scope), scope);
  }

  void execute_call_block(const Node& node, const ScopePtr& scope, std::string& out) {
    const Expr& call = *node.expr;
    Args args = eval_args(call, scope);
    args.named.set("caller", make_macro(node, scope, "caller"));
    append(out, text_of(call_value(eval(*call.args[0], scope), args, call)));
  }

  void assign(const Expr& target, const Value& value, const ScopePtr& scope) {
    if (target.kind == ExprKind::kName) {
      scope->names.set(target.name, value);
    } else if (target.kind == ExprKind::kAttribute) {
      const Value object = eval(*target.args[0], scope);
      if (!object.is(Kind::kNamespace)) {
        throw TemplateError("cannot assign attribute on non-namespace object");
      }
      if (value.is_sequence() || value.is(Kind::kDict) || value.is(Kind::kNamespace) ||
          value.is(Kind::kFunction)) {
        remember(object);
      }
      object.mutable_dict().set(target.name, value);
    } else {
      const List items = iterate(value);
      if (items.size() != target.args.size()) {
        throw TemplateError("expected " + std::to_string(target.args.size()) +
                            " values to unpack, got " + std::to_string(items.size()));
      }
      for (std::size_t i = 0; i < items.size(); ++i) assign(*target.args[i], items[i], scope);
    }
  }

  /// Makes a macro. The node is part of the template's tree, which outlives the rendering.
  Value make_macro(const Node& node, const ScopePtr& scope, const std::string& name) {
    return Value::function([this, &node, scope, name](const Args& args) {
      if (++depth_ > bounds_.depth) {
        throw TemplateError("macros are nested deeper than " + std::to_string(bounds_.depth));
      }
      const ScopePtr s = inner(scope);
      if (args.positional.size() > node.parameters.size()) {
        throw TemplateError("macro '" + name + "' takes not more than " +
                            std::to_string(node.parameters.size()) + " argument(s)");
      }
      for (std::size_t i = 0; i < node.parameters.size(); ++i) {
        const MacroParameter& p = node.parameters[i];
        const Value* given = args.get(i, p.name);
        if (given != nullptr) {
          s->names.set(p.name, *given);
        } else {
          s->names.set(p.name, p.fallback ? eval(*p.fallback, s) : Value::undefined(p.name));
        }
      }
      refuse_unknown(node, args, name);
      if (const Value* caller = args.named.find("caller")) s->names.set("caller", *caller);
      std::string out;
      execute(node.body, s, out);
      --depth_;
      return Value::string(std::move(out));
    });
  }

  /// Refuses a named argument that has no parameter, or that a positional one has set already.
  static void refuse_unknown(const Node& node, const Args& args, const std::string& name) {
    for (const auto& [key, value] : args.named.items()) {
      const std::string& keyword = key.as_string();  // clang 14 captures no bindings
      if (keyword == "caller") continue;
      const auto at = std::find_if(node.parameters.begin(), node.parameters.end(),
                                   [&](const auto& p) { return p.name == keyword; });
      const auto i = static_cast<std::size_t>(at - node.parameters.begin());
      if (at == node.parameters.end() || i < args.positional.size()) {
        throw TemplateError("macro '" + name + "' takes no keyword argument '" + key.as_string() +
                            "'");
      }
    }
  }

  /// Holds a namespace until the end, where the cycles of all are broken.
  void remember(const Value& space) {
    if (name_spaces_.empty() || !name_spaces_.back().equals(space)) name_spaces_.push_back(space);
  }

  /// Returns str(v), with its work counted.
  std::string text_of(const Value& v) {
    spend(v.weight());
    return v.to_string();
  }

  // ---- expressions

  /// Counts nesting on our own stack, including macro calls.
  struct Depth {
    explicit Depth(int& n) : nesting(n) {
      if (++nesting > kNestingMax) throw TemplateError("the template is nested too deeply");
    }
    ~Depth() { --nesting; }
    int& nesting;
  };

  Value eval(const Expr& e, const ScopePtr& scope) {
    const Depth depth(nesting_);
    spend(1);
    switch (e.kind) {
      case ExprKind::kLiteral:
        return e.literal;
      case ExprKind::kName:
        return eval_name(e, scope);
      case ExprKind::kList:
      case ExprKind::kTuple: {
        List items;
        for (const ExprPtr& a : e.args) items.push_back(eval(*a, scope));
        return e.kind == ExprKind::kList ? Value::list(std::move(items))
                                         : Value::tuple(std::move(items));
      }
      case ExprKind::kDict: {
        Dict items;
        for (std::size_t i = 0; i + 1 < e.args.size(); i += 2) {
          items.set(eval(*e.args[i], scope), eval(*e.args[i + 1], scope));
        }
        return Value::dict(std::move(items));
      }
      case ExprKind::kAttribute:
        return eval_attribute(e, scope);
      case ExprKind::kItem:
        return eval_item(e, scope);
      case ExprKind::kSlice:
        return eval_slice(e, scope);
      case ExprKind::kCall: {
        const Value f = eval(*e.args[0], scope);
        return call_value(f, eval_args(e, scope), e);
      }
      case ExprKind::kFilter:
        return eval_filter(e, scope);
      case ExprKind::kTest:
        return Value::boolean(apply_test(e.name, eval(*e.args[0], scope), eval_args(e, scope)));
      case ExprKind::kNot:
        return Value::boolean(!eval(*e.args[0], scope).truthy());
      case ExprKind::kNegate:
      case ExprKind::kPlus:
        return eval_sign(e, scope);
      case ExprKind::kBinary:
        return binary(e.name, eval(*e.args[0], scope), eval(*e.args[1], scope));
      case ExprKind::kAnd: {
        Value left = eval(*e.args[0], scope);
        return left.truthy() ? eval(*e.args[1], scope) : left;
      }
      case ExprKind::kOr: {
        Value left = eval(*e.args[0], scope);
        return left.truthy() ? left : eval(*e.args[1], scope);
      }
      case ExprKind::kCompare:
        return eval_compare(e, scope);
      case ExprKind::kConditional:
        if (eval(*e.args[1], scope).truthy()) return eval(*e.args[0], scope);
        return e.args[2] != nullptr ? eval(*e.args[2], scope)
                                    : Value::undefined_because(
                                          "the inline if-expression evaluated to false and no "
                                          "else section was defined");
    }
    return Value();
  }

  Value eval_name(const Expr& e, const ScopePtr& scope) {
    if (const Value* v = scope->find(e.name)) return *v;
    Value g = global_function(e.name, date_);
    return g.is(Kind::kUndefined) ? Value::undefined(e.name) : g;
  }

  static void refuse_undefined(const Value& v) {
    if (v.is(Kind::kUndefined)) throw TemplateError(v.undefined_text());
  }

  Value eval_attribute(const Expr& e, const ScopePtr& scope) {
    const Value object = eval(*e.args[0], scope);
    refuse_undefined(object);
    if (!object.is(Kind::kNamespace)) {  // with a dot methods come first, with brackets keys
      Value method = bound_method(object, e.name);
      if (!method.is(Kind::kUndefined)) {
        if (object.is(Kind::kString)) spend(object.weight());
        return method;
      }
    }
    Value v = get_item(object, Value::string(e.name));
    if (v.is(Kind::kUndefined)) {
      return Value::undefined_because(std::string("'") + object.type_name() +
                                      " object' has no attribute '" + e.name + "'");
    }
    return v;
  }

  Value eval_item(const Expr& e, const ScopePtr& scope) {
    const Value object = eval(*e.args[0], scope);
    const Value key = eval(*e.args[1], scope);
    refuse_undefined(object);
    Value v = get_item(object, key);
    if (v.is(Kind::kUndefined) && key.is(Kind::kString)) v = bound_method(object, key.as_string());
    if (!v.is(Kind::kUndefined)) return v;
    return Value::undefined_because(
        std::string("'") + object.type_name() + " object' has no " +
        (key.is(Kind::kString) ? "attribute '" + key.as_string() + "'" : "element " + key.repr()));
  }

  Value eval_slice(const Expr& e, const ScopePtr& scope) {
    const Value object = eval(*e.args[0], scope);
    refuse_undefined(object);
    if (!object.is_sequence() && !object.is(Kind::kString)) {
      throw TemplateError(std::string("'") + object.type_name() + "' object is not subscriptable");
    }
    const bool is_text = object.is(Kind::kString);
    if (is_text) spend(object.weight());
    const std::vector<std::string> points =
        is_text ? code_points(object.as_string()) : std::vector<std::string>();
    const auto n = static_cast<std::int64_t>(is_text ? points.size() : object.as_list().size());
    const auto part = [&](std::size_t i) {
      Value v = e.args[i] ? eval(*e.args[i], scope) : Value::none();
      if (!v.is(Kind::kNone) && (!v.is_number() || v.is(Kind::kFloat))) {
        throw TemplateError("slice indices must be integers or None");
      }
      return v;
    };
    const Value step_value = part(3);
    // A step over the whole length has the same result as any longer one.
    const std::int64_t step =
        step_value.is_number() ? std::clamp(step_value.as_int(), -n - 1, n + 1) : 1;
    if (step == 0) throw TemplateError("slice step cannot be zero");
    const auto bound = [&](const Value& v, std::int64_t fallback) {
      if (!v.is_number()) return fallback;
      std::int64_t i = v.as_int();
      if (i < 0) i += n;
      return step > 0 ? std::min(std::max<std::int64_t>(i, 0), n)
                      : std::min(std::max<std::int64_t>(i, -1), n - 1);
    };
    const std::int64_t start = bound(part(1), step > 0 ? 0 : n - 1);
    const std::int64_t stop = bound(part(2), step > 0 ? n : -1);
    List out;
    std::string text;
    for (std::int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
      const auto at = static_cast<std::size_t>(i);
      if (is_text) {
        text += points[at];
      } else {
        spend(1);
        out.push_back(object.as_list()[at]);
      }
    }
    if (is_text) return Value::string(std::move(text));
    return object.is(Kind::kTuple) ? Value::tuple(std::move(out)) : Value::list(std::move(out));
  }

  Args eval_args(const Expr& e, const ScopePtr& scope) {
    Args args;
    for (std::size_t i = 1; i < e.args.size(); ++i)
      args.positional.push_back(eval(*e.args[i], scope));
    for (const auto& [name, expr] : e.named) args.named.set(name, eval(*expr, scope));
    return args;
  }

  Value call_value(const Value& f, const Args& args, const Expr& e) {
    refuse_undefined(f);
    if (!f.is(Kind::kFunction)) {
      throw TemplateError(std::string("'") + f.type_name() + "' object is not callable", e.line);
    }
    spend(1);
    for (const Value& v : args.positional) {
      if (v.is(Kind::kString) || v.is_sequence()) spend(v.weight());
    }
    const Value result = f.as_function()(args);
    if (result.is(Kind::kString)) spend(result.as_string().size() / 64);
    if (result.is_sequence()) spend(result.as_list().size());
    if (result.is(Kind::kNamespace)) remember(result);
    return result;
  }

  Value eval_filter(const Expr& e, const ScopePtr& scope) {
    const Value value = eval(*e.args[0], scope);
    return apply_filter(e.name, value, eval_args(e, scope), *this);
  }

  Value eval_sign(const Expr& e, const ScopePtr& scope) {
    const Value v = eval(*e.args[0], scope);
    refuse_undefined(v);
    if (!v.is_number()) {
      throw TemplateError(std::string("bad operand type for unary ") +
                          (e.kind == ExprKind::kNegate ? "-" : "+") + ": '" + v.type_name() + "'");
    }
    const int sign = e.kind == ExprKind::kNegate ? -1 : 1;
    if (v.is(Kind::kFloat)) return Value::number(sign * v.as_double());
    return Value::integer(
        sign < 0 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(v.as_int()))
                 : v.as_int());
  }

  Value eval_compare(const Expr& e, const ScopePtr& scope) {
    Value left = eval(*e.args[0], scope);
    for (std::size_t i = 0; i < e.operators.size(); ++i) {
      const Value right = eval(*e.args[i + 1], scope);
      if (!compare(e.operators[i], left, right)) return Value::boolean(false);
      left = right;
    }
    return Value::boolean(true);
  }

  bool contains(const Value& container, const Value& item) {
    if (container.is(Kind::kString)) {
      if (!item.is(Kind::kString)) {
        throw TemplateError(std::string("'in <string>' requires string as left operand, not ") +
                            item.type_name());
      }
      spend(container.as_string().size() / 64);
      return container.as_string().find(item.as_string()) != std::string::npos;
    }
    if (container.is(Kind::kDict)) {
      if (item.is(Kind::kList) || item.is(Kind::kDict)) {
        throw TemplateError(std::string("unhashable type: '") + item.type_name() + "'");
      }
      return container.as_dict().find(item) != nullptr;
    }
    if (container.is(Kind::kUndefined)) return false;
    if (!container.is_sequence()) {
      throw TemplateError(std::string("argument of type '") + container.type_name() +
                          "' is not iterable");
    }
    for (const Value& v : container.as_list()) {
      spend(std::min(v.weight(), item.weight()));
      if (v.equals(item)) return true;
    }
    return false;
  }

  bool compare(const std::string& op, const Value& a, const Value& b) {
    if (op != "in" && op != "not in") spend(std::min(a.weight(), b.weight()));
    if (op == "==") return a.equals(b);
    if (op == "!=") return !a.equals(b);
    if (op == "in") return contains(b, a);
    if (op == "not in") return !contains(b, a);
    refuse_undefined(a);
    refuse_undefined(b);
    const int c = a.compare(b);
    if (op == "<") return c < 0;
    if (op == "<=") return c <= 0;
    if (op == ">") return c > 0;
    return c >= 0;
  }

  [[noreturn]] static void bad_operands(const std::string& op, const Value& a, const Value& b) {
    throw TemplateError("unsupported operand type(s) for " + op + ": '" + a.type_name() +
                        "' and '" + b.type_name() + "'");
  }

  Value binary(const std::string& op, const Value& a, const Value& b) {
    if (op == "~") return joined(text_of(a), text_of(b));
    refuse_undefined(a);
    refuse_undefined(b);
    if (op == "+") {
      if (a.is(Kind::kString) && b.is(Kind::kString)) return joined(a.as_string(), b.as_string());
      if (a.is_sequence() && a.kind() == b.kind()) {
        if (a.as_list().size() + b.as_list().size() > kWeightMax) {
          throw TemplateError("a value grows too large");
        }
        List items = a.as_list();
        items.insert(items.end(), b.as_list().begin(), b.as_list().end());
        spend(items.size());
        return a.is(Kind::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
      }
    }
    if (op == "*") {
      const auto repeats = [](const Value& v) { return v.is(Kind::kString) || v.is_sequence(); };
      const auto counts = [](const Value& v) { return v.is(Kind::kInt) || v.is(Kind::kBool); };
      if (repeats(a) && counts(b)) return repeat(a, b);
      if (repeats(b) && counts(a)) return repeat(b, a);
    }
    if (op == "%" && a.is(Kind::kString)) {
      spend(a.weight() + b.weight());
      return Value::string(percent_format(a.as_string(), b));
    }
    if (!a.is_number() || !b.is_number()) bad_operands(op, a, b);
    return arithmetic(op, a, b);
  }

  Value joined(const std::string& a, const std::string& b) {
    spend((a.size() + b.size()) / 64);
    if (a.size() + b.size() > bounds_.output_bytes) throw TemplateError("a string grows too long");
    return Value::string(a + b);
  }

  Value repeat(const Value& a, const Value& count) {
    const std::int64_t n = std::max<std::int64_t>(count.as_int(), 0);
    const std::size_t size = a.is(Kind::kString) ? a.as_string().size() : a.as_list().size();
    const std::uint64_t limit = a.is(Kind::kString) ? bounds_.output_bytes : kWeightMax;
    if (size != 0 && static_cast<std::uint64_t>(n) > limit / size) {
      throw TemplateError("a repeated value grows too long");
    }
    if (size == 0) return a;
    spend(static_cast<std::uint64_t>(n));
    if (a.is(Kind::kString)) {
      std::string out;
      for (std::int64_t i = 0; i < n; ++i) out += a.as_string();
      return Value::string(std::move(out));
    }
    List out;
    for (std::int64_t i = 0; i < n; ++i)
      out.insert(out.end(), a.as_list().begin(), a.as_list().end());
    return a.is(Kind::kList) ? Value::list(std::move(out)) : Value::tuple(std::move(out));
  }

  static Value arithmetic(const std::string& op, const Value& a, const Value& b) {
    const double x = a.as_double();
    const double y = b.as_double();
    if ((op == "/" || op == "//" || op == "%") && y == 0) throw TemplateError("division by zero");
    if (op == "/") return Value::number(x / y);
    if (op == "**" && x == 0 && y < 0) {
      throw TemplateError("0.0 cannot be raised to a negative power");
    }
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat) || (op == "**" && y < 0)) {
      if (op == "+") return Value::number(x + y);
      if (op == "-") return Value::number(x - y);
      if (op == "*") return Value::number(x * y);
      if (op == "**") return power(x, y);
      // Python's divmod of floats: the remainder has the divisor's sign.
      double rest = std::fmod(x, y);
      double quotient = (x - rest) / y;
      if (rest != 0 && (rest < 0) != (y < 0)) {
        rest += y;
        quotient -= 1;
      }
      if (op == "%") return Value::number(rest != 0 ? rest : std::copysign(0.0, y));
      return Value::number(quotient != 0 ? std::round(quotient) : std::copysign(0.0, x / y));
    }
    return integer_arithmetic(op, a.as_int(), b.as_int());
  }

  static Value power(double x, double y) {
    const double r = std::pow(x, y);
    if (std::isnan(r) && !std::isnan(x) && !std::isnan(y)) {
      throw TemplateError("a negative number cannot be raised to a fractional power");
    }
    if (std::isinf(r) && std::isfinite(x) && std::isfinite(y)) {
      throw TemplateError("numerical result out of range in '**'");
    }
    return Value::number(r);
  }

  static Value integer_arithmetic(const std::string& op, std::int64_t i, std::int64_t j) {
    std::int64_t r = 0;
    bool overflow = false;
    if (op == "+") {
      overflow = __builtin_add_overflow(i, j, &r);
    } else if (op == "-") {
      overflow = __builtin_sub_overflow(i, j, &r);
    } else if (op == "*") {
      overflow = __builtin_mul_overflow(i, j, &r);
    } else if (op == "**") {
      r = 1;
      for (std::int64_t k = 0; k < j && !overflow; ++k) {
        overflow = k > 64 && (i > 1 || i < -1);
        overflow = overflow || __builtin_mul_overflow(r, i, &r);
        if (i == 0 || i == 1 || (i == -1 && k > 1'000'000)) break;
      }
    } else if (j == -1) {  // INT64_MIN / -1 would trap
      overflow = op == "//" && i == std::numeric_limits<std::int64_t>::min();
      r = op == "//" && !overflow ? -i : 0;
    } else {
      const std::int64_t rest = i % j;
      const bool adjust = rest != 0 && (rest < 0) != (j < 0);  // Python rounds down
      r = op == "//" ? i / j - (adjust ? 1 : 0) : rest + (adjust ? j : 0);
    }
    if (overflow) throw TemplateError("integer overflow in '" + op + "'");
    return Value::integer(r);
  }

  const std::string& date_;
  const Bounds& bounds_;
  ScopePtr root_;
  std::uint64_t steps_ = 0;
  std::uint64_t written_ = 0;
  int depth_ = 0;
  int nesting_ = 0;
  std::vector<ScopePtr> macro_scopes_;
  std::vector<Value> name_spaces_;
};

}  // namespace

std::string render(const Body& body, const Dict& globals, const std::string& date,
                   const Bounds& bounds) {
  Evaluator evaluator(globals, date, bounds);
  return evaluator.run(body);
}

}  // namespace holdfast::text::jinja
