// llama.cpp's grammar format (documented in its grammars/README.md).

#include <map>
#include <optional>
#include <utility>

#include "shared/grammar/rule_set.h"
#include "shared/grammar/source.h"
#include "shared/text/utf8.h"

namespace holdfast::grammar {
namespace {

constexpr std::uint32_t kCountMax = 100'000;
constexpr std::size_t kInlineNodesMax = 64;  // a smaller rule is inlined into its callers

struct GbnfRule {
  std::string name;
  std::optional<Expr> expr;
  RuleId id = 0;  // of the grammar, once it is set
  bool has_id = false;
  bool recursive = true;  // until shown otherwise
  std::size_t nodes = 0;
};

class Parser {
 public:
  Parser(std::u32string text, const GrammarLimits& limits)
      : in_(std::move(text)), limits_(limits) {}

  Result<std::vector<GbnfRule>> parse() {
    skip(true);
    while (!in_.at_end()) HOLDFAST_CHECKED(parse_rule());
    for (const GbnfRule& rule : rules_) {
      if (!rule.expr) return bad("the rule '" + rule.name + "' is used but not there");
    }
    if (ids_.count("root") == 0) return bad("there is no rule 'root'");
    return std::move(rules_);
  }

 private:
  Error bad(const std::string& cause) const {
    return {Errc::kInvalidRequest, "compile GBNF: " + in_.position() + ": " + cause};
  }

  Result<void> parse_rule() {
    HOLDFAST_TRY(const std::string name, read_name());
    skip(false);
    if (!in_.take(':') || !in_.take(':') || !in_.take('=')) {
      return bad("expected '::=' behind the rule name '" + name + "'");
    }
    skip(true);
    const std::uint32_t rule = rule_of(name);
    if (rules_[rule].expr) return bad("the rule '" + name + "' is there twice");
    HOLDFAST_TRY(Expr expr, parse_alternatives(0));
    rules_[rule].expr = std::move(expr);
    if (!in_.at_end() && !is_line_end(in_.peek())) {
      return bad("expected the end of the line behind the rule '" + name + "'");
    }
    skip(true);
    if (rules_.size() > limits_.rules_max) {
      return bad("more than " + std::to_string(limits_.rules_max) + " rules");
    }
    return {};
  }

  static bool is_line_end(char32_t c) { return c == '\n' || c == '\r'; }

  /// Skips white space and comments; line ends only inside brackets and where a rule continues.
  void skip(bool line_ends) {
    for (;;) {
      const char32_t c = in_.peek();
      if (c == '#') {
        while (!in_.at_end() && !is_line_end(in_.peek())) in_.take(in_.peek());
      } else if (c == ' ' || c == '\t' || (line_ends && is_line_end(c))) {
        in_.take(c);
      } else {
        return;
      }
    }
  }

  static bool is_name_char(char32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  }
  Result<std::string> read_name() {
    std::string name;
    for (; is_name_char(in_.peek()); in_.take(in_.peek())) {
      name.push_back(static_cast<char>(in_.peek()));
    }
    if (name.empty()) return bad("expected a rule name");
    return name;
  }
  std::uint32_t rule_of(const std::string& name) {
    const auto [at, is_new] = ids_.try_emplace(name, static_cast<std::uint32_t>(rules_.size()));
    if (is_new) {
      rules_.emplace_back();
      rules_.back().name = name;
    }
    return at->second;
  }

  Result<Expr> parse_alternatives(std::uint32_t depth) {
    if (depth > limits_.depth_max) {
      return bad("brackets nest deeper than " + std::to_string(limits_.depth_max));
    }
    std::vector<Expr> alternatives;
    do {
      skip(!alternatives.empty() || depth > 0);
      HOLDFAST_TRY(Expr sequence, parse_sequence(depth));
      alternatives.push_back(std::move(sequence));
    } while (in_.take('|'));
    if (alternatives.size() == 1) return std::move(alternatives[0]);
    return Expr::alt(std::move(alternatives));
  }

  Result<Expr> parse_sequence(std::uint32_t depth) {
    std::vector<Expr> parts;
    while (starts_item(in_.peek())) {
      HOLDFAST_TRY(Expr item, parse_item(depth));
      parts.push_back(std::move(item));
      skip(depth > 0);
      HOLDFAST_CHECKED(parse_repetitions(parts.back()));
      skip(depth > 0);
    }
    return Expr::seq(std::move(parts));
  }

  static bool starts_item(char32_t c) {
    return std::u32string_view(U"\"[.(<!").find(c) != std::u32string_view::npos || is_name_char(c);
  }

  Result<Expr> parse_item(std::uint32_t depth) {
    switch (in_.peek()) {
      case '"':
        return parse_literal();
      case '[':
        return parse_class();
      case '.':
        in_.take('.');
        return Expr::one_of(negated({}));
      case '(': {
        in_.take('(');
        HOLDFAST_TRY(Expr inner, parse_alternatives(depth + 1));
        if (!in_.take(')')) return bad("'(' without ')'");
        return inner;
      }
      case '<':
      case '!':
        return Error{Errc::kUnsupported, "compile GBNF: " + in_.position() +
                                             ": token names cannot be honoured; write the text"};
      default: {
        HOLDFAST_TRY(const std::string name, read_name());
        return Expr::call(rule_of(name));
      }
    }
  }

  Result<void> parse_repetitions(Expr& part) {
    for (std::uint32_t n = 0;; ++n) {
      std::uint32_t min = 0;
      std::uint32_t max = kUnlimited;
      if (in_.take('+')) {
        min = 1;
      } else if (in_.take('?')) {
        max = 1;
      } else if (in_.take('{')) {
        HOLDFAST_CHECKED(read_counts(min, max));
      } else if (!in_.take('*')) {
        return {};
      }
      if (n >= 8) return bad("more than 8 repetitions of one thing");
      part = Expr::repeat(std::move(part), min, max);
    }
  }

  Result<void> read_counts(std::uint32_t& min, std::uint32_t& max) {
    const auto first = in_.read_number(kCountMax);
    if (!first) return bad("expected a count of at most " + std::to_string(kCountMax));
    min = *first;
    max = min;
    if (in_.take(',')) {
      max = kUnlimited;
      if (in_.peek() != '}') {
        const auto second = in_.read_number(kCountMax);
        if (!second) return bad("expected a count of at most " + std::to_string(kCountMax));
        max = *second;
      }
    }
    if (!in_.take('}')) return bad("expected '}' behind a count");
    if (max < min) return bad("a repetition whose maximum is below its minimum");
    return {};
  }

  Result<char32_t> read_char() {
    const char32_t c = in_.peek();
    if (in_.at_end()) return bad("the text ends inside quotes or brackets");
    in_.take(c);
    if (c != '\\') return c;
    const char32_t e = in_.peek();
    if (in_.at_end()) return bad("'\\' at the end");
    in_.take(e);
    switch (e) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'x':
        return read_code(2);
      case 'u':
        return read_code(4);
      case 'U':
        return read_code(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return e;
      default:
        return bad("an escape that is not known; expected one of \\n \\r \\t \\x \\u \\U");
    }
  }
  Result<char32_t> read_code(int digits) {
    const auto point = in_.read_hex(digits);
    if (!point || *point > kCodeMax || (*point >= 0xD800 && *point <= 0xDFFF)) {
      return bad("expected " + std::to_string(digits) + " hexadecimal digits of a code point");
    }
    return *point;
  }

  Result<Expr> parse_literal() {
    in_.take('"');
    std::string bytes;
    while (in_.peek() != '"') {
      HOLDFAST_TRY(const char32_t c, read_char());
      text::append_utf8(c, bytes);
    }
    in_.take('"');
    return Expr::literal(std::move(bytes));
  }

  Result<Expr> parse_class() {
    in_.take('[');
    const bool negative = in_.take('^');
    CharSet set;
    while (in_.peek() != ']') {
      HOLDFAST_TRY(const char32_t lo, read_char());
      char32_t hi = lo;
      if (in_.peek() == '-' && in_.peek(1) != ']') {
        in_.take('-');
        HOLDFAST_TRY(hi, read_char());
        if (hi < lo) return bad("a range whose end is below its start");
      }
      set.push_back({lo, hi});
    }
    in_.take(']');
    return Expr::one_of(negative ? negated(set) : normalised(std::move(set)));
  }

  SourceReader in_;
  const GrammarLimits& limits_;
  std::vector<GbnfRule> rules_;
  std::map<std::string, std::uint32_t> ids_;
};

/// Inlines small rules, so that a character rule costs no call a byte.
class Builder {
 public:
  Builder(std::vector<GbnfRule> parsed, RuleSet& rules)
      : parsed_(std::move(parsed)), rules_(rules), state_(parsed_.size(), 0) {}

  RuleId build(std::uint32_t root) {
    for (std::uint32_t r = 0; r < parsed_.size(); ++r) measure();
    const RuleId id = rule_id(root);
    for (std::size_t i = 0; i < todo_.size() && rules_.budget().ok(); ++i) {
      rules_.set(parsed_[todo_[i]].id, resolved(*parsed_[todo_[i]].expr));
    }
    return id;
  }

 private:
  /// Makes one pass: a rule is not recursive once all that it calls are known not to be.
  void measure() {
    if (settled_) return;
    settled_ = true;
    for (GbnfRule& rule : parsed_) {
      if (!rule.recursive || rule.nodes == kTooLarge) continue;
      bool is_open = false;
      const std::size_t nodes = count(*rule.expr, is_open);
      rules_.budget().take_work(nodes + 1);
      if (is_open || !rules_.budget().ok()) continue;
      rule.recursive = false;
      rule.nodes = nodes;
      settled_ = false;
    }
  }
  std::size_t count(const Expr& expr, bool& is_open) const {
    std::size_t nodes = 1 + expr.bytes.size() / 4;
    if (expr.kind == Expr::Kind::kCall) {
      const GbnfRule& rule = parsed_[expr.rule];
      is_open = is_open || rule.recursive;
      if (!rule.recursive && rule.nodes <= kInlineNodesMax) nodes += rule.nodes;
    }
    for (const Expr& part : expr.parts) nodes += count(part, is_open);
    // Counted copies would duplicate whatever is inlined.
    if (expr.kind == Expr::Kind::kRepeat && expr.max != kUnlimited) nodes *= 1 + expr.max;
    return std::min<std::size_t>(nodes, kTooLarge);
  }
  RuleId rule_id(std::uint32_t r) {
    GbnfRule& rule = parsed_[r];
    if (!rule.has_id) {
      rule.has_id = true;
      rule.id = rules_.reserve(rule.name);
      todo_.push_back(r);
    }
    return rule.id;
  }
  Expr resolved(const Expr& expr) {
    if (!rules_.budget().take_work(1)) return Expr::nothing();
    if (expr.kind == Expr::Kind::kCall) {
      const GbnfRule& rule = parsed_[expr.rule];
      if (!rule.recursive && rule.nodes <= kInlineNodesMax) return resolved(*rule.expr);
      return Expr::call(rule_id(expr.rule));
    }
    Expr out = expr;
    out.parts.clear();
    for (const Expr& part : expr.parts) out.parts.push_back(resolved(part));
    return out;
  }

  static constexpr std::size_t kTooLarge = 1'000'000;
  std::vector<GbnfRule> parsed_;
  RuleSet& rules_;
  std::vector<int> state_;
  std::vector<std::uint32_t> todo_;
  bool settled_ = false;
};

}  // namespace

Result<GrammarPtr> compile_gbnf(std::string_view source, const GrammarLimits& limits) {
  const std::string operation = "compile GBNF";
  if (source.size() > limits.source_bytes_max) {
    return Error{Errc::kInvalidRequest, operation + ": it has " + std::to_string(source.size()) +
                                            " bytes; expected at most " +
                                            std::to_string(limits.source_bytes_max)};
  }
  Result<std::u32string> text = decode_source(source);
  if (!text) return Error{text.error().code, operation + ": " + text.error().what};
  HOLDFAST_TRY(std::vector<GbnfRule> parsed, Parser(std::move(*text), limits).parse());
  std::uint32_t root = 0;
  while (parsed[root].name != "root") ++root;
  Budget budget(limits);
  RuleSet rules(budget);
  const RuleId id = Builder(std::move(parsed), rules).build(root);
  return rules.assemble(id, operation);
}

}  // namespace holdfast::grammar
