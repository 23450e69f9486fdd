#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <utility>

#include "shared/jinja/ast.h"
#include "shared/jinja/lexer.h"

namespace holdfast::text::jinja {
namespace {

constexpr int kDepthMax = 200;  // of nested expressions and blocks: bounds our own stack

using Names = std::vector<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize_template(source)) {}

  Body run() {
    Body body = parse_body({});
    if (!at(TokenKind::kEnd)) fail("unexpected end tag");
    return body;
  }

 private:
  struct Nesting {  // counts depth for the life of a scope
    explicit Nesting(Parser& p) : parser(p) {
      if (++parser.depth_ > kDepthMax) parser.fail("nested deeper than 200");
    }
    ~Nesting() { --parser.depth_; }
    Parser& parser;
  };

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool at(TokenKind kind) const { return peek().kind == kind; }
  bool at_op(std::string_view op) const { return at(TokenKind::kOperator) && peek().text == op; }
  bool at_name(std::string_view name) const { return at(TokenKind::kName) && peek().text == name; }
  Token take() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }
  bool accept_op(std::string_view op) { return at_op(op) && (take(), true); }
  bool accept_name(std::string_view name) { return at_name(name) && (take(), true); }
  [[noreturn]] void fail(const std::string& what) const { throw TemplateError(what, peek().line); }
  std::string found() const {
    if (at(TokenKind::kEnd)) return "end of template";
    if (at(TokenKind::kBlockEnd)) return "end of tag";
    if (at(TokenKind::kOutputEnd)) return "end of print statement";
    return "'" + peek().text + "'";
  }
  void expect_op(std::string_view op) {
    if (!accept_op(op)) fail("expected '" + std::string(op) + "', found " + found());
  }
  std::string expect_name() {
    if (!at(TokenKind::kName)) fail("expected a name, found " + found());
    return take().text;
  }
  void expect_block_end() {
    if (!at(TokenKind::kBlockEnd)) fail("expected end of tag, found " + found());
    take();
  }

  static ExprPtr make(ExprKind kind, int line) {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->line = line;
    return e;
  }
  NodePtr make_node(NodeKind kind) const {
    auto n = std::make_unique<Node>();
    n->kind = kind;
    n->line = peek().line;
    return n;
  }

  // ---- statements

  /// Parses nodes until a block tag whose name is in `ends` (its kBlockBegin is taken, the name is
  /// not).
  Body parse_body(const Names& ends) {
    const Nesting nesting(*this);
    Body body;
    while (!at(TokenKind::kEnd)) {
      if (at(TokenKind::kText)) {
        NodePtr n = make_node(NodeKind::kText);
        n->text = take().text;
        body.push_back(std::move(n));
      } else if (at(TokenKind::kOutputBegin)) {
        take();
        NodePtr n = make_node(NodeKind::kOutput);
        n->expr = parse_tuple();
        if (!at(TokenKind::kOutputEnd)) fail("expected end of print statement, found " + found());
        take();
        body.push_back(std::move(n));
      } else {
        take();  // kBlockBegin
        const bool ends_here = std::any_of(ends.begin(), ends.end(),
                                           [&](std::string_view name) { return at_name(name); });
        if (ends_here) return body;
        body.push_back(parse_statement());
      }
    }
    if (!ends.empty())
      fail("unexpected end of template; expected '" + std::string(ends.back()) + "'");
    return body;
  }

  NodePtr parse_statement() {
    using Parse = NodePtr (Parser::*)();
    static const std::map<std::string_view, Parse> statements = {
        {"if", &Parser::parse_if},           {"for", &Parser::parse_for},
        {"set", &Parser::parse_set},         {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call_block}, {"filter", &Parser::parse_filter_block},
        {"with", &Parser::parse_with},       {"generation", &Parser::parse_generation},
    };
    const std::string tag = expect_name();
    if (tag == "break" || tag == "continue") return parse_jump(tag);
    const auto statement = statements.find(tag);
    if (statement != statements.end()) return (this->*statement->second)();
    if (tag == "do") fail("tag 'do' is not supported: extensions are off");
    fail("unknown or unsupported tag '" + tag + "'");
  }

  NodePtr parse_jump(const std::string& tag) {
    if (loops_ == 0) fail("'" + tag + "' outside a loop");
    NodePtr n = make_node(tag == "break" ? NodeKind::kBreak : NodeKind::kContinue);
    expect_block_end();
    return n;
  }

  /// Parses the tag that marks the assistant's text for training: no effect here.
  NodePtr parse_generation() {
    NodePtr n = make_node(NodeKind::kScope);
    expect_block_end();
    n->body = parse_to("endgeneration");
    return n;
  }

  Body parse_to(std::string_view end) {
    Body body = parse_body({end});
    take();
    expect_block_end();
    return body;
  }

  NodePtr parse_if() {
    NodePtr n = make_node(NodeKind::kIf);
    for (;;) {
      ExprPtr condition = parse_tuple(/*conditional=*/false);
      expect_block_end();
      n->branches.emplace_back(std::move(condition), parse_body({"elif", "else", "endif"}));
      if (accept_name("elif")) continue;
      if (accept_name("else")) {
        expect_block_end();
        n->otherwise = parse_body({"endif"});
      }
      take();
      expect_block_end();
      return n;
    }
  }

  NodePtr parse_for() {
    NodePtr n = make_node(NodeKind::kFor);
    n->target = parse_target();
    if (!accept_name("in")) fail("expected 'in', found " + found());
    n->expr = parse_tuple(/*conditional=*/false);
    if (accept_name("if")) n->condition = parse_expression();
    if (at_name("recursive")) fail("recursive loops are not supported");
    expect_block_end();
    ++loops_;
    n->body = parse_body({"else", "endfor"});
    --loops_;
    if (accept_name("else")) {
      expect_block_end();
      n->otherwise = parse_body({"endfor"});
    }
    take();
    expect_block_end();
    return n;
  }

  /// Parses name | name.attribute | name, name, …
  ExprPtr parse_target() {
    const int line = peek().line;
    const auto one = [&]() -> ExprPtr {
      if (accept_op("(")) {
        ExprPtr inner = parse_target();
        expect_op(")");
        return inner;
      }
      ExprPtr e = make(ExprKind::kName, line);
      e->name = expect_name();
      if (accept_op(".")) {
        ExprPtr a = make(ExprKind::kAttribute, line);
        a->name = expect_name();
        a->args.push_back(std::move(e));
        return a;
      }
      return e;
    };
    ExprPtr first = one();
    if (!at_op(",")) return first;
    ExprPtr tuple = make(ExprKind::kTuple, line);
    tuple->args.push_back(std::move(first));
    while (accept_op(",")) {
      if (at_name("in") || at_op("=")) break;
      tuple->args.push_back(one());
    }
    return tuple;
  }

  NodePtr parse_set() {
    NodePtr n = make_node(NodeKind::kSet);
    n->target = parse_target();
    if (accept_op("=")) {
      n->expr = parse_tuple();
      expect_block_end();
      return n;
    }
    n->kind = NodeKind::kSetBlock;
    if (at_op("|")) {  // {% set x | filter %}…{% endset %}
      ExprPtr inner = make(ExprKind::kName, peek().line);
      inner->name = "\x01 body";
      n->expr = parse_filters(std::move(inner));
    }
    expect_block_end();
    n->body = parse_to("endset");
    return n;
  }

  void parse_parameters(Node& n) {
    if (!accept_op("(")) return;
    while (!accept_op(")")) {
      MacroParameter p;
      p.name = expect_name();
      if (accept_op("=")) p.fallback = parse_expression();
      n.parameters.push_back(std::move(p));
      if (!at_op(")")) expect_op(",");
    }
  }

  NodePtr parse_macro() {
    NodePtr n = make_node(NodeKind::kMacro);
    n->text = expect_name();
    parse_parameters(*n);
    expect_block_end();
    const int loops = std::exchange(loops_, 0);
    n->body = parse_to("endmacro");
    loops_ = loops;
    return n;
  }

  NodePtr parse_call_block() {
    NodePtr n = make_node(NodeKind::kCallBlock);
    parse_parameters(*n);
    n->expr = parse_expression();
    if (n->expr->kind != ExprKind::kCall) fail("expected a call after 'call'");
    expect_block_end();
    const int loops = std::exchange(loops_, 0);
    n->body = parse_to("endcall");
    loops_ = loops;
    return n;
  }

  NodePtr parse_filter_block() {
    NodePtr n = make_node(NodeKind::kFilterBlock);
    ExprPtr inner = make(ExprKind::kName, peek().line);
    inner->name = "\x01 body";
    n->expr = parse_filter(std::move(inner));
    n->expr = parse_filters(std::move(n->expr));
    expect_block_end();
    n->body = parse_to("endfilter");
    return n;
  }

  NodePtr parse_with() {
    NodePtr n = make_node(NodeKind::kWith);
    while (!at(TokenKind::kBlockEnd)) {
      std::string name = expect_name();
      expect_op("=");
      n->assignments.emplace_back(std::move(name), parse_expression());
      if (!at(TokenKind::kBlockEnd)) expect_op(",");
    }
    expect_block_end();
    n->body = parse_to("endwith");
    return n;
  }

  // ---- expressions, loosest first

  bool ends_tuple() const {
    return at(TokenKind::kBlockEnd) || at(TokenKind::kOutputEnd) || at_op(")") || at_name("in") ||
           at_name("if") || at_name("recursive");
  }
  ExprPtr parse_tuple(bool conditional = true) {
    const int line = peek().line;
    ExprPtr first = conditional ? parse_expression() : parse_or();
    if (!at_op(",")) return first;
    ExprPtr tuple = make(ExprKind::kTuple, line);
    tuple->args.push_back(std::move(first));
    while (accept_op(",")) {
      if (ends_tuple()) break;
      tuple->args.push_back(conditional ? parse_expression() : parse_or());
    }
    return tuple;
  }

  ExprPtr parse_expression() {
    const Nesting nesting(*this);
    ExprPtr value = parse_or();
    while (at_name("if")) {
      ExprPtr c = make(ExprKind::kConditional, take().line);
      c->args.push_back(std::move(value));
      c->args.push_back(parse_or());
      c->args.push_back(accept_name("else") ? parse_expression() : nullptr);
      value = std::move(c);
    }
    return value;
  }

  ExprPtr join(ExprKind kind, std::string name, ExprPtr a, ExprPtr b) {
    ExprPtr e = make(kind, a->line);
    e->name = std::move(name);
    e->args.push_back(std::move(a));
    e->args.push_back(std::move(b));
    return e;
  }
  ExprPtr parse_or() {
    ExprPtr left = parse_and();
    while (accept_name("or")) left = join(ExprKind::kOr, "or", std::move(left), parse_and());
    return left;
  }
  ExprPtr parse_and() {
    ExprPtr left = parse_not();
    while (accept_name("and")) left = join(ExprKind::kAnd, "and", std::move(left), parse_not());
    return left;
  }
  ExprPtr parse_not() {
    const Nesting nesting(*this);
    if (!at_name("not")) return parse_compare();
    ExprPtr e = make(ExprKind::kNot, take().line);
    e->args.push_back(parse_not());
    return e;
  }
  /// Takes a comparison operator; returns "" if there is none.
  std::string accept_comparison() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (accept_op(op)) return std::string(op);
    }
    if (accept_name("in")) return "in";
    if (at_name("not") && peek(1).kind == TokenKind::kName && peek(1).text == "in") {
      take();
      take();
      return "not in";
    }
    return "";
  }
  ExprPtr parse_compare() {
    ExprPtr left = parse_sum();
    std::string op = accept_comparison();
    if (op.empty()) return left;
    ExprPtr e = make(ExprKind::kCompare, left->line);
    e->args.push_back(std::move(left));
    for (; !op.empty(); op = accept_comparison()) {
      e->operators.push_back(op);
      e->args.push_back(parse_sum());
    }
    return e;
  }
  ExprPtr parse_sum() {
    ExprPtr left = parse_concat();
    while (at_op("+") || at_op("-")) {
      const std::string op = take().text;
      left = join(ExprKind::kBinary, op, std::move(left), parse_concat());
    }
    return left;
  }
  ExprPtr parse_concat() {
    ExprPtr left = parse_product();
    while (accept_op("~")) left = join(ExprKind::kBinary, "~", std::move(left), parse_product());
    return left;
  }
  ExprPtr parse_product() {
    ExprPtr left = parse_power();
    while (at_op("*") || at_op("/") || at_op("//") || at_op("%")) {
      const std::string op = take().text;
      left = join(ExprKind::kBinary, op, std::move(left), parse_power());
    }
    return left;
  }
  ExprPtr parse_power() {
    ExprPtr left = parse_unary(true);
    while (accept_op("**"))
      left = join(ExprKind::kBinary, "**", std::move(left), parse_unary(true));
    return left;
  }
  ExprPtr parse_unary(bool with_filters) {
    const Nesting nesting(*this);
    ExprPtr e;
    if (at_op("-") || at_op("+")) {
      const Token sign = take();
      e = make(sign.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, sign.line);
      e->args.push_back(parse_unary(false));
    } else {
      e = parse_primary();
    }
    e = parse_postfix(std::move(e));
    return with_filters ? parse_filters(std::move(e)) : std::move(e);
  }

  ExprPtr literal(Value value) {
    ExprPtr e = make(ExprKind::kLiteral, peek().line);
    e->literal = std::move(value);
    return e;
  }
  /// Parses a name, or one of the constants that are spelt like names.
  ExprPtr parse_name() {
    const int line = peek().line;
    const std::string name = take().text;
    if (name == "true" || name == "True") return literal(Value::boolean(true));
    if (name == "false" || name == "False") return literal(Value::boolean(false));
    if (name == "none" || name == "None") return literal(Value::none());
    ExprPtr e = make(ExprKind::kName, line);
    e->name = name;
    return e;
  }
  ExprPtr parse_string() {
    std::string text = take().text;  // adjacent strings are one
    while (at(TokenKind::kString)) text += take().text;
    return literal(Value::string(std::move(text)));
  }
  ExprPtr parse_integer_literal() {
    const std::string text = take().text;
    std::int64_t i = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), i);
    if (r.ec != std::errc()) fail("integer literal out of range");
    return literal(Value::integer(i));
  }
  ExprPtr parse_float() {
    const std::string text = take().text;
    double d = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), d);
    if (r.ec != std::errc()) d = std::strtod(text.c_str(), nullptr);  // infinity, or zero
    return literal(Value::number(d));
  }
  ExprPtr parse_primary() {
    const int line = peek().line;
    switch (peek().kind) {
      case TokenKind::kName:
        return parse_name();
      case TokenKind::kString:
        return parse_string();
      case TokenKind::kInteger:
        return parse_integer_literal();
      case TokenKind::kFloat:
        return parse_float();
      default:
        break;
    }
    if (accept_op("(")) return parse_parenthesis(line);
    if (at_op("[")) return parse_list();
    if (at_op("{")) return parse_dict();
    fail("unexpected " + found());
  }
  ExprPtr parse_parenthesis(int line) {
    if (accept_op(")")) return make(ExprKind::kTuple, line);
    ExprPtr inner = parse_tuple();
    expect_op(")");
    return inner;
  }
  ExprPtr parse_list() {
    ExprPtr e = make(ExprKind::kList, take().line);
    while (!accept_op("]")) {
      e->args.push_back(parse_expression());
      if (!at_op("]")) expect_op(",");
    }
    return e;
  }
  ExprPtr parse_dict() {
    ExprPtr e = make(ExprKind::kDict, take().line);
    while (!accept_op("}")) {
      e->args.push_back(parse_expression());
      expect_op(":");
      e->args.push_back(parse_expression());
      if (!at_op("}")) expect_op(",");
    }
    return e;
  }

  ExprPtr parse_postfix(ExprPtr e) {
    for (;;) {
      const int line = peek().line;
      if (accept_op(".")) {
        ExprPtr a = make(ExprKind::kAttribute, line);
        if (at(TokenKind::kInteger)) {  // x.0 is x[0]
          a->kind = ExprKind::kItem;
          a->args.push_back(std::move(e));
          a->args.push_back(parse_primary());
        } else {
          a->name = expect_name();
          a->args.push_back(std::move(e));
        }
        e = std::move(a);
      } else if (accept_op("[")) {
        e = parse_subscript(std::move(e), line);
      } else if (at_op("(")) {
        ExprPtr c = make(ExprKind::kCall, line);
        c->args.push_back(std::move(e));
        parse_arguments(*c);
        e = std::move(c);
      } else {
        return e;
      }
    }
  }
  /// Parses up to three parts between colons into `parts`; returns true if there is a colon.
  bool parse_subscript_parts(std::array<ExprPtr, 3>& parts) {
    std::size_t n = 0;
    while (!accept_op("]")) {
      if (accept_op(":")) {
        if (++n > 2) fail("too many parts in a slice");
      } else {
        if (parts[n] != nullptr) fail("expected ']', found " + found());
        parts[n] = parse_expression();
      }
    }
    return n != 0;
  }
  ExprPtr parse_subscript(ExprPtr object, int line) {
    std::array<ExprPtr, 3> parts;
    const bool slice = parse_subscript_parts(parts);
    ExprPtr e = make(slice ? ExprKind::kSlice : ExprKind::kItem, line);
    e->args.push_back(std::move(object));
    if (!slice && parts[0] == nullptr) fail("expected a subscript");
    for (std::size_t i = 0; i < (slice ? 3U : 1U); ++i) e->args.push_back(std::move(parts[i]));
    return e;
  }
  void parse_arguments(Expr& call) {
    expect_op("(");
    while (!accept_op(")")) {
      if (at_op("*") || at_op("**")) fail("argument unpacking is not supported");
      if (at(TokenKind::kName) && peek(1).kind == TokenKind::kOperator && peek(1).text == "=") {
        std::string name = take().text;
        take();
        call.named.emplace_back(std::move(name), parse_expression());
      } else {
        if (!call.named.empty()) fail("positional argument after a named one");
        call.args.push_back(parse_expression());
      }
      if (!at_op(")")) expect_op(",");
    }
  }

  ExprPtr parse_filters(ExprPtr e) {
    for (;;) {
      if (accept_op("|")) {
        e = parse_filter(std::move(e));
      } else if (at_name("is")) {
        take();
        e = parse_test(std::move(e));
      } else if (at_op("(")) {
        e = parse_postfix(std::move(e));
      } else {
        return e;
      }
    }
  }
  ExprPtr parse_filter(ExprPtr e) {
    ExprPtr f = make(ExprKind::kFilter, peek().line);
    f->name = expect_name();
    f->args.push_back(std::move(e));
    if (at_op("(")) parse_arguments(*f);
    return f;
  }
  /// Returns true if the next token begins the argument of a test without parentheses.
  bool at_test_argument() const {
    static constexpr std::string_view kKeywords[] = {"else", "or", "and", "is", "if", "in", "not"};
    switch (peek().kind) {
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return true;
      case TokenKind::kName:
        return std::find(std::begin(kKeywords), std::end(kKeywords), peek().text) ==
               std::end(kKeywords);
      default:
        return at_op("[") || at_op("{");
    }
  }
  ExprPtr parse_test(ExprPtr e) {
    const int line = peek().line;
    const bool negated = accept_name("not");
    ExprPtr t = make(ExprKind::kTest, line);
    t->name = expect_name();
    t->args.push_back(std::move(e));
    if (at_op("(")) {
      parse_arguments(*t);
    } else if (at_test_argument()) {
      t->args.push_back(parse_postfix(parse_primary()));
    }
    if (!negated) return t;
    ExprPtr n = make(ExprKind::kNot, line);
    n->args.push_back(std::move(t));
    return n;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // loops around this place, in this macro
};

}  // namespace

Body parse_template(std::string_view source) {
  return Parser(source).run();
}

}  // namespace holdfast::text::jinja
