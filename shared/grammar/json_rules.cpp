#include "shared/grammar/json_rules.h"

namespace holdfast::grammar {
namespace {

Expr one_char(char32_t lo, char32_t hi) {
  return Expr::one_of({{lo, hi}});
}

Expr hex(std::uint32_t n) {
  return Expr::repeat(Expr::one_of({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}), n, n);
}

/// Matches -?(0|[1-9][0-9]{0,17}).
Expr integer_part() {
  std::vector<Expr> first;
  first.push_back(Expr::literal("0"));
  first.push_back(Expr::seq({one_char('1', '9'), digits(0, kIntegerDigitsMax - 1)}));
  return Expr::seq({Expr::optional(Expr::literal("-")), Expr::alt(std::move(first))});
}

}  // namespace

Expr digits(std::uint32_t min, std::uint32_t max) {
  return Expr::repeat(one_char('0', '9'), min, max);
}

CharSet any_character() {
  return negated({});
}

Expr any_characters() {
  return Expr::repeat(Expr::one_of(any_character()), 0, kUnlimited);
}

RuleId JsonRules::once(RuleId& rule, const char* name, Expr (JsonRules::*make)()) {
  if (rule != kNone) return rule;
  const RuleId id = rules_.reserve(name);
  rule = id;
  rules_.set(id, (this->*make)());
  return id;
}

RuleId JsonRules::any_value() {
  return once(value_, "JSON value", &JsonRules::make_value);
}
RuleId JsonRules::any_object() {
  return once(object_, "JSON object", &JsonRules::make_object);
}
RuleId JsonRules::any_array() {
  return once(array_, "JSON array", &JsonRules::make_array);
}
RuleId JsonRules::any_string() {
  return once(string_, "JSON string", &JsonRules::make_string);
}
RuleId JsonRules::any_number() {
  return once(number_, "JSON number", &JsonRules::make_number);
}
RuleId JsonRules::any_integer() {
  return once(integer_, "JSON integer", &JsonRules::make_integer);
}

RuleId JsonRules::any_key() {
  if (key_ == kNone) {
    key_ = rules_.add("JSON key",
                      Expr::seq({Expr::literal("\""), any_characters(), Expr::literal("\"")}),
                      Encoding::kJson);
  }
  return key_;
}

Expr JsonRules::gap() {
  return Expr::optional(Expr::call(once(gap_, "JSON white space", &JsonRules::make_gap)));
}

Expr JsonRules::make_gap() {
  std::vector<Expr> indents;
  indents.push_back(Expr::repeat(Expr::literal(" "), 0, kIndentSpacesMax));
  indents.push_back(Expr::repeat(Expr::literal("\t"), 0, kIndentTabsMax));
  std::vector<Expr> gaps;
  gaps.push_back(Expr::literal(" "));
  gaps.push_back(Expr::seq({Expr::literal("\n"), Expr::alt(std::move(indents))}));
  return Expr::alt(std::move(gaps));
}

Expr JsonRules::colon() {
  return Expr::seq({Expr::literal(":"), Expr::optional(Expr::literal(" "))});
}

Expr JsonRules::make_value() {
  std::vector<Expr> values;
  for (const char* word : {"null", "true", "false"}) values.push_back(Expr::literal(word));
  for (const RuleId rule : {any_object(), any_array(), any_string(), any_number()}) {
    values.push_back(Expr::call(rule));
  }
  return Expr::alt(std::move(values));
}

Expr JsonRules::make_object() {
  const Expr member = Expr::seq({Expr::call(any_key()), colon(), Expr::call(any_value())});
  const Expr more = Expr::seq({Expr::literal(","), gap(), member});
  const Expr members = Expr::seq({member, Expr::repeat(more, 0, kUnlimited), gap()});
  return Expr::seq({Expr::literal("{"), gap(), Expr::optional(members), Expr::literal("}")});
}

Expr JsonRules::make_array() {
  const Expr item = Expr::call(any_value());
  const Expr more = Expr::seq({Expr::literal(","), gap(), item});
  const Expr items = Expr::seq({item, Expr::repeat(more, 0, kUnlimited), gap()});
  return Expr::seq({Expr::literal("["), gap(), Expr::optional(items), Expr::literal("]")});
}

Expr JsonRules::make_string() {
  const CharSet plain = negated({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  const Expr d = Expr::one_of({{'D', 'D'}, {'d', 'd'}});
  const Expr high = Expr::one_of({{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
  const Expr low = Expr::one_of({{'C', 'F'}, {'c', 'f'}});
  const Expr no_d = Expr::one_of({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}});
  const Expr u = Expr::literal("u");
  std::vector<Expr> escapes;
  escapes.push_back(Expr::one_of(normalised({{'"', '"'},
                                             {'\\', '\\'},
                                             {'/', '/'},
                                             {'b', 'b'},
                                             {'f', 'f'},
                                             {'n', 'n'},
                                             {'r', 'r'},
                                             {'t', 't'}})));
  escapes.push_back(Expr::seq({u, no_d, hex(3)}));
  escapes.push_back(Expr::seq({u, d, one_char('0', '7'), hex(2)}));
  escapes.push_back(Expr::seq({u, d, high, hex(2), Expr::literal("\\u"), d, low, hex(2)}));
  std::vector<Expr> characters;
  characters.push_back(Expr::one_of(plain));
  characters.push_back(Expr::seq({Expr::literal("\\"), Expr::alt(std::move(escapes))}));
  return Expr::seq({Expr::literal("\""),
                    Expr::repeat(Expr::alt(std::move(characters)), 0, kUnlimited),
                    Expr::literal("\"")});
}

Expr JsonRules::make_integer() {
  return integer_part();
}

Expr JsonRules::make_number() {
  const Expr fraction = Expr::seq({Expr::literal("."), digits(1, kFractionDigitsMax)});
  const Expr sign = Expr::optional(Expr::one_of({{'+', '+'}, {'-', '-'}}));
  const Expr exponent = Expr::seq({Expr::one_of({{'E', 'E'}, {'e', 'e'}}), sign, digits(1, 2)});
  return Expr::seq({integer_part(), Expr::optional(fraction), Expr::optional(exponent)});
}

Result<GrammarPtr> compile_json_mode(const GrammarLimits& limits) {
  Budget budget(limits);
  RuleSet rules(budget);
  JsonRules json(rules);
  const RuleId root = json.any_object();
  return rules.assemble(root, "compile JSON mode");
}

}  // namespace holdfast::grammar
