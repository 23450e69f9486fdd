#include "shared/grammar/regex.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "shared/grammar/look.h"
#include "shared/grammar/rule_set.h"
#include "shared/grammar/source.h"
#include "shared/grammar/unicode_property.h"

namespace holdfast::grammar {
namespace {

constexpr std::uint32_t kCountMax = 100'000;

const CharSet kDigit = {{'0', '9'}};
const CharSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kSpace = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                        {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharSet kLineEnd = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

void unite(CharSet& set, const CharSet& more) {
  set.insert(set.end(), more.begin(), more.end());
}

class Parser {
 public:
  Parser(std::u32string text, std::uint32_t depth_max)
      : in_(std::move(text)), depth_max_(depth_max) {}

  Result<Expr> parse() {
    HOLDFAST_TRY(Expr expr, parse_alternatives(0));
    if (!in_.at_end()) return bad("')' without '('");
    return expr;
  }

 private:
  Error fail(Errc code, const std::string& cause) const {
    return {code, "at character " + std::to_string(in_.offset()) + ": " + cause};
  }
  Error bad(const std::string& cause) const { return fail(Errc::kInvalidRequest, cause); }
  Error unsupported(const std::string& what) const {
    return fail(Errc::kUnsupported, what + " cannot be honoured; write the expression without it");
  }

  Result<Expr> parse_alternatives(std::uint32_t depth) {
    if (depth > depth_max_) {
      return bad("groups nest deeper than " + std::to_string(depth_max_));
    }
    std::vector<Expr> alternatives;
    do {
      std::vector<Expr> parts;
      while (!in_.at_end() && in_.peek() != '|' && in_.peek() != ')') {
        HOLDFAST_TRY(Expr part, parse_term(depth));
        parts.push_back(std::move(part));
      }
      alternatives.push_back(Expr::seq(std::move(parts)));
    } while (in_.take('|'));
    if (alternatives.size() == 1) return std::move(alternatives[0]);
    return Expr::alt(std::move(alternatives));
  }

  Result<Expr> parse_term(std::uint32_t depth) {
    if (in_.take('^')) return Expr::of(Expr::Kind::kBegin);
    if (in_.take('$')) return Expr::of(Expr::Kind::kEnd);
    if (in_.peek() == '\\' && (in_.peek(1) == 'b' || in_.peek(1) == 'B')) {
      in_.take('\\');
      const bool is_one = in_.take('b');
      in_.take('B');
      return word_boundary(is_one);
    }
    HOLDFAST_TRY(Expr atom, parse_atom(depth));
    return parse_quantifiers(std::move(atom));
  }

  Result<Expr> parse_atom(std::uint32_t depth) {
    const char32_t c = in_.peek();
    if (c == '*' || c == '+' || c == '?') return bad("a quantifier with nothing before it");
    if (c == '(') return parse_group(depth);
    if (c == '[') return parse_class();
    in_.take(c);
    if (c == '.') return Expr::one_of(negated(kLineEnd));
    if (c != '\\') return characters({{c, c}});
    HOLDFAST_TRY(CharSet set, parse_escape());
    return characters(std::move(set));
  }

  /// A group's kind, read from the text after its bracket.
  struct GroupKind {
    bool is_look = false;
    bool ahead = true;
    bool negative = false;
    bool is_whole = false;  // flags that end the group themselves
  };

  Result<GroupKind> parse_group_start(std::uint32_t depth) {
    GroupKind kind;
    if (!in_.take('?')) return kind;
    const char32_t after = in_.peek(1);
    const bool lookbehind = in_.peek() == '<' && (after == '=' || after == '!');
    if (lookbehind) in_.take('<');
    if (in_.peek() == '=' || in_.peek() == '!') {
      kind.is_look = true;
      kind.ahead = !lookbehind;
      kind.negative = in_.take('!');
      in_.take('=');
      return kind;
    }
    HOLDFAST_TRY(kind.is_whole, parse_group_kind(depth));
    return kind;
  }

  Result<Expr> parse_group(std::uint32_t depth) {
    in_.take('(');
    const bool ignored_case = ignores_case_;  // ends with the group that changed it
    HOLDFAST_TRY(const GroupKind kind, parse_group_start(depth));
    if (kind.is_whole) return Expr::empty();
    HOLDFAST_TRY(Expr inner, parse_alternatives(depth + 1));
    if (!in_.take(')')) return bad("'(' without ')'");
    ignores_case_ = ignored_case;
    if (!kind.is_look) return inner;
    if (!kind.ahead && !is_plain(inner)) return unsupported("a look inside of a look behind");
    return Expr::look(std::move(inner), kind.ahead, kind.negative);
  }

  /// Parses the text after "(?": ":", a name, or flags, which may end the group: "(?i)" holds from
  /// there on.
  Result<bool> parse_group_kind(std::uint32_t depth) {
    if (in_.take(':')) return false;
    if (in_.peek(1) == '<') in_.take('P');  // Python's notation of a name
    if (in_.take('<')) {
      HOLDFAST_CHECKED(skip_group_name());
      return false;
    }
    if (!in_.take('i')) return unsupported("this kind of group");
    if (in_.take(':')) {
      ignores_case_ = true;
      return false;
    }
    if (depth > 0 || !in_.take(')')) return unsupported("this kind of group");
    ignores_case_ = true;
    return true;
  }
  Result<void> skip_group_name() {
    while (!in_.at_end() && in_.peek() != '>') in_.take(in_.peek());
    if (!in_.take('>')) return bad("a group name without '>'");
    return {};
  }

  /// Returns true for an expression without looks and without an end anchor.
  static bool is_plain(const Expr& expr) {
    if (expr.kind == Expr::Kind::kLook || expr.kind == Expr::Kind::kEnd) return false;
    return std::all_of(expr.parts.begin(), expr.parts.end(), &is_plain);
  }

  /// Adds the other case of ASCII letters where case is ignored.
  Expr characters(CharSet set) const {
    if (!ignores_case_) return Expr::one_of(std::move(set));
    CharSet out = set;
    for (const CodeRange& range : intersected(set, {{'A', 'Z'}})) {
      out.push_back({range.lo + 32, range.hi + 32});
    }
    for (const CodeRange& range : intersected(set, {{'a', 'z'}})) {
      out.push_back({range.lo - 32, range.hi - 32});
    }
    return Expr::one_of(normalised(std::move(out)));
  }

  static Expr word_boundary(bool is_one) {
    const auto look = [](bool ahead, bool negative) {
      return Expr::look(Expr::one_of(kWord), ahead, negative);
    };
    return Expr::alt({Expr::seq({look(false, false), look(true, is_one)}),
                      Expr::seq({look(false, true), look(true, !is_one)})});
  }

  using Counts = std::pair<std::uint32_t, std::uint32_t>;  // the fewest and the most repetitions

  /// Reads {m}, {m,} or {m,n}; nullopt (and nothing is read) for other text.
  std::optional<Counts> read_counts() {
    const std::size_t start = in_.offset();
    in_.take('{');
    const std::optional<std::uint32_t> min = in_.read_number(kCountMax);
    std::optional<std::uint32_t> max = min;
    if (min && in_.take(',')) {
      max = in_.peek() == '}' ? std::optional(kUnlimited) : in_.read_number(kCountMax);
    }
    if (min && max && in_.take('}')) return std::pair(*min, *max);
    in_.seek(start);
    return std::nullopt;
  }

  /// Reads a quantifier without what may follow it; nullopt if there is none.
  Result<std::optional<Counts>> read_quantifier() {
    if (in_.take('+')) return std::optional(Counts(1, kUnlimited));
    if (in_.take('?')) return std::optional(Counts(0, 1));
    if (in_.take('*')) return std::optional(Counts(0, kUnlimited));
    if (in_.peek() != '{') return std::optional<Counts>();
    const std::optional<Counts> counts = read_counts();
    if (!counts && is_count_like()) {
      return bad("a repetition of over " + std::to_string(kCountMax));
    }
    if (counts && counts->second < counts->first) {
      return bad("a repetition whose maximum is below its minimum");
    }
    return counts;  // nullopt: a literal brace
  }

  Result<Expr> parse_quantifiers(Expr atom) {
    HOLDFAST_TRY(const std::optional<Counts> counts, read_quantifier());
    if (!counts) return atom;
    in_.take('?');  // lazy: the same texts
    const char32_t next = in_.peek();
    if (next == '+') return unsupported("a possessive quantifier");
    if (next == '*' || next == '?') return bad("a quantifier behind a quantifier");
    return Expr::repeat(std::move(atom), counts->first, counts->second);
  }
  bool is_count_like() const { return in_.peek(1) >= '0' && in_.peek(1) <= '9'; }

  Result<Expr> parse_class() {
    in_.take('[');
    const bool negative = in_.take('^');
    CharSet set;
    while (in_.peek() != ']') {
      if (in_.at_end()) return bad("'[' without ']'");
      HOLDFAST_TRY(const CharSet part, parse_class_part());
      unite(set, part);
    }
    in_.take(']');
    Expr chars = characters(normalised(std::move(set)));
    return negative ? Expr::one_of(negated(chars.chars)) : std::move(chars);
  }

  /// Parses a character, a class of its own, or a range of characters.
  Result<CharSet> parse_class_part() {
    bool single = false;
    HOLDFAST_TRY(CharSet lo, parse_class_atom(single));
    const bool is_range = in_.peek() == '-' && in_.peek(1) != ']' && in_.peek(1) != kNoChar;
    if (!is_range) return lo;
    in_.take('-');
    bool single_hi = false;
    HOLDFAST_TRY(const CharSet hi, parse_class_atom(single_hi));
    if (!single || !single_hi) return bad("a range whose end is a class");
    if (hi[0].lo < lo[0].lo) return bad("a range whose end is below its start");
    lo[0].hi = hi[0].lo;
    return lo;
  }

  Result<CharSet> parse_class_atom(bool& single) {
    const char32_t c = in_.peek();
    in_.take(c);
    if (c != '\\') {
      single = true;
      return CharSet{{c, c}};
    }
    HOLDFAST_TRY(CharSet set, parse_escape());
    single = set.size() == 1 && set[0].lo == set[0].hi;
    return set;
  }

  static CharSet one(char32_t point) { return CharSet{{point, point}}; }

  /// Returns the set of a letter that stands for a class; nullopt for another one.
  static std::optional<CharSet> class_of_escape(char32_t letter) {
    switch (letter) {
      case 'd':
        return kDigit;
      case 'D':
        return negated(kDigit);
      case 'w':
        return kWord;
      case 'W':
        return negated(kWord);
      case 's':
        return kSpace;
      case 'S':
        return negated(kSpace);
      default:
        return std::nullopt;
    }
  }

  /// Returns the character that a letter stands for; nullopt if it does not.
  static std::optional<char32_t> control_of_escape(char32_t letter) {
    switch (letter) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'b':
        return '\b';  // only in a class
      default:
        return std::nullopt;
    }
  }

  Result<CharSet> parse_escape() {
    if (in_.at_end()) return bad("'\\' at the end");
    const char32_t c = in_.peek();
    in_.take(c);
    if (const std::optional<CharSet> set = class_of_escape(c)) return *set;
    if (const std::optional<char32_t> control = control_of_escape(c)) return one(*control);
    switch (c) {
      case '0':
        if (in_.peek() >= '0' && in_.peek() <= '9') return unsupported("an octal escape");
        return one(0);
      case 'x':
        return read_code(2);
      case 'u':
        return in_.peek() == '{' ? read_braced() : read_code(4);
      case 'k':
        return unsupported("a back reference");
      case 'p':
      case 'P':
        return parse_property(c == 'P');
      case 'c':
        return parse_control_letter();
      default:
        return escaped_character(c);
    }
  }

  Result<CharSet> parse_control_letter() {
    const char32_t letter = in_.peek() | 0x20;
    if (letter < 'a' || letter > 'z') return bad("\\c without a letter");
    in_.take(in_.peek());
    return one(letter - 'a' + 1);
  }

  /// Returns a character that stands for itself; letters and digits are kept for escapes.
  Result<CharSet> escaped_character(char32_t c) const {
    if (c >= '1' && c <= '9') return unsupported("a back reference");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      return unsupported(std::string("the escape \\") + static_cast<char>(c));
    }
    return one(c);
  }

  /// Parses "{Lu}" of "\\p{Lu}", or one letter.
  Result<CharSet> parse_property(bool negative) {
    std::string name;
    const auto take = [&] {
      name.push_back(in_.peek() < 0x80 ? static_cast<char>(in_.peek()) : '?');
      in_.take(in_.peek());
    };
    if (in_.take('{')) {
      while (!in_.at_end() && in_.peek() != '}') take();
      if (!in_.take('}')) return bad("\\p{ without '}'");
    } else if (!in_.at_end()) {
      take();
    }
    const std::optional<CharSet> set = unicode_property(name);
    if (!set) return unsupported("the Unicode property '" + name + "'");
    return negative ? negated(*set) : *set;
  }

  static bool is_high_surrogate(char32_t point) { return point >= 0xD800 && point < 0xDC00; }

  Result<CharSet> read_code(int n) {
    const std::optional<char32_t> point = in_.read_hex(n);
    if (!point) return bad("an escape without its " + std::to_string(n) + " hexadecimal digits");
    const bool is_pair =
        n == 4 && is_high_surrogate(*point) && in_.peek() == '\\' && in_.peek(1) == 'u';
    if (!is_pair) return scalar(*point);
    in_.take('\\');
    in_.take('u');
    const std::optional<char32_t> low = in_.read_hex(4);
    if (!low || *low < 0xDC00 || *low > 0xDFFF) return bad("half a surrogate pair");
    return scalar(0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00));
  }

  Result<CharSet> read_braced() {
    in_.take('{');
    char32_t point = 0;
    int n = 0;
    for (std::optional<char32_t> digit; (digit = in_.read_hex(1)); ++n) {
      point = point << 4 | *digit;
      if (point > kCodeMax) return bad("a code point over 10FFFF");
    }
    if (n == 0 || !in_.take('}')) return bad("\\u{ without digits and '}'");
    return scalar(point);
  }

  Result<CharSet> scalar(char32_t point) const {
    if (point >= 0xD800 && point <= 0xDFFF) return bad("half a surrogate pair");
    return CharSet{{point, point}};
  }

  SourceReader in_;
  std::uint32_t depth_max_;
  bool ignores_case_ = false;
};

}  // namespace

Result<Expr> parse_regex(std::string_view pattern, std::uint32_t depth_max) {
  if (pattern.size() > kRegexBytesMax) {
    return Error{Errc::kInvalidRequest, "the expression has " + std::to_string(pattern.size()) +
                                            " bytes; expected at most " +
                                            std::to_string(kRegexBytesMax)};
  }
  HOLDFAST_TRY(std::u32string text, decode_source(pattern));
  return Parser(std::move(text), depth_max).parse();
}

namespace {

Expr any_text() {
  return Expr::repeat(Expr::one_of(negated({})), 0, kUnlimited);
}

Dfa dfa_of_all(const Expr& expr, Encoding encoding, Budget& budget) {
  if (has_looks(expr)) return dfa_of_looks(expr, encoding, budget);
  Nfa nfa(budget);
  nfa.set_accept(nfa.append(0, expr, encoding));
  return determinised(nfa);
}

/// Compiles an expression that begins with lookaheads as an intersection of the rest and of each
/// lookahead: there, automata intersected once are smaller and faster than those that run in
/// parallel.
Dfa dfa_of_begun(const Expr& expr, bool to_end, Encoding encoding, Budget& budget) {
  std::vector<Expr> rest{Expr::of(Expr::Kind::kBegin)};
  std::vector<const Expr*> looks;
  std::size_t i = 0;
  while (i < expr.parts.size() && expr.parts[i].kind == Expr::Kind::kBegin) ++i;
  for (; i < expr.parts.size() && expr.parts[i].kind == Expr::Kind::kLook; ++i) {
    if (!expr.parts[i].ahead) break;
    looks.push_back(&expr.parts[i]);
  }
  rest.insert(rest.end(), expr.parts.begin() + static_cast<std::ptrdiff_t>(i), expr.parts.end());
  if (!to_end) rest.push_back(any_text());
  Dfa all = dfa_of_all(Expr::seq(std::move(rest)), encoding, budget);
  for (const Expr* look : looks) {
    const Dfa tail = dfa_of_all(Expr::seq({look->parts[0], any_text()}), encoding, budget);
    all = intersected(all, tail, look->negative, budget);
  }
  return all;
}

bool begins_with_look(const Expr& expr, bool after_anchor) {
  if (expr.kind != Expr::Kind::kSeq) return false;
  std::size_t i = 0;
  while (i < expr.parts.size() && expr.parts[i].kind == Expr::Kind::kBegin) ++i;
  const bool is_look = i < expr.parts.size() && expr.parts[i].kind == Expr::Kind::kLook;
  return is_look && expr.parts[i].ahead && (i > 0 || !after_anchor);
}

}  // namespace

Dfa dfa_of_whole(const Expr& expr, Encoding encoding, Budget& budget) {
  if (begins_with_look(expr, false)) return dfa_of_begun(expr, true, encoding, budget);
  return dfa_of_all(expr, encoding, budget);
}

Dfa dfa_of_search(const Expr& expr, Encoding encoding, Budget& budget) {
  if (begins_with_look(expr, true)) return dfa_of_begun(expr, false, encoding, budget);
  return dfa_of_all(Expr::seq({any_text(), expr, any_text()}), encoding, budget);
}

Result<GrammarPtr> compile_regex(std::string_view pattern, const GrammarLimits& limits) {
  const std::string operation = "compile regular expression";
  Result<Expr> expr = parse_regex(pattern, limits.depth_max);
  if (!expr) return Error{expr.error().code, operation + ": " + expr.error().what};
  Budget budget(limits);
  RuleSet rules(budget);
  const RuleId root = rules.add("expression", dfa_of_whole(*expr, Encoding::kUtf8, budget));
  return rules.assemble(root, operation);
}

}  // namespace holdfast::grammar
