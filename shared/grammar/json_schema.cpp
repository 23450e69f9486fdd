#include <algorithm>

#include "shared/grammar/schema_builder.h"

namespace holdfast::grammar {

SchemaBuilder::SchemaBuilder(RuleSet& rules)
    : rules_(rules),
      json_(rules),
      reader_(rules.budget()),
      long_strings_(rules, "characters", Expr::one_of(any_character()), Expr::literal("\""),
                    Encoding::kJson) {
  reader_.set_disjoint(&SchemaBuilder::is_disjoint, this);
}

Result<RuleId> SchemaBuilder::build(const JsonTree& root) {
  return build(reader_.set_of({reader_.add_document(root)}));
}

Result<RuleId> SchemaBuilder::build_object(const JsonTree& root) {
  const JsonTree name = {JsonTree::Kind::kString, false, "object", {}, {}};
  const SchemaId object = reader_.make({JsonTree::Kind::kObject, false, "", {name}, {"type"}}, "#");
  return build(with({reader_.add_document(root)}, object));
}

Result<RuleId> SchemaBuilder::build(const SchemaSet& set) {
  const RuleId root = rule_of(set);
  while (!todo_.empty() && rules_.budget().ok()) {
    const auto [next, rule] = std::move(todo_.back());
    todo_.pop_back();
    HOLDFAST_TRY(const std::vector<Conjunct> alternatives, reader_.alternatives(next));
    std::vector<Expr> exprs;
    for (const Conjunct& c : alternatives) {
      HOLDFAST_TRY(Expr expr, expr_of(c));
      exprs.push_back(std::move(expr));
    }
    rules_.set(rule, Expr::alt(std::move(exprs)));
  }
  return root;
}

RuleId SchemaBuilder::rule_of(const SchemaSet& set) {
  if (set.empty()) return json_.any_value();
  const auto [at, is_new] = by_set_.try_emplace(set, 0);
  if (is_new) {
    at->second = rules_.reserve(reader_.pointer(set[0]));
    todo_.emplace_back(set, at->second);
  }
  return at->second;
}

Result<void> SchemaBuilder::check_usable(const Conjunct& c) {
  if (!c.refused) return {};
  return schema_error(Errc::kUnsupported, c.refused->keyword, c.refused->pointer,
                      "it cannot be honoured where it must not hold, under not, if or oneOf; a "
                      "property that tells the cases apart, or anyOf, does without");
}

Result<Expr> SchemaBuilder::expr_of(const Conjunct& c) {
  HOLDFAST_CHECKED(check_usable(c));
  if (c.values) return values_of(c);
  std::vector<Expr> kinds;
  if ((c.types & kTypeNull) != 0) kinds.push_back(Expr::literal("null"));
  if ((c.types & kTypeBoolean) != 0) {
    kinds.push_back(Expr::literal("true"));
    kinds.push_back(Expr::literal("false"));
  }
  const auto add = [&](std::uint8_t type, auto make) -> Result<void> {
    if ((c.types & type) == 0) return {};
    HOLDFAST_TRY(Expr expr, make());
    kinds.push_back(std::move(expr));
    return {};
  };
  HOLDFAST_CHECKED(add(kTypeInteger | kTypeFraction, [&] { return number_of(c); }));
  HOLDFAST_CHECKED(add(kTypeString, [&] { return string_of(c); }));
  HOLDFAST_CHECKED(add(kTypeArray, [&] { return array_of(c); }));
  HOLDFAST_CHECKED(add(kTypeObject, [&] { return object_of(c); }));
  return Expr::alt(std::move(kinds));
}

Result<Expr> SchemaBuilder::values_of(const Conjunct& c) {
  std::vector<Expr> values;
  for (const JsonTree* value : *c.values) {
    HOLDFAST_TRY(const bool good, admits(c, *value));
    if (good) values.push_back(literal_of(*value));
  }
  return Expr::alt(std::move(values));
}

Expr SchemaBuilder::literal_of(const JsonTree& value) {
  switch (value.kind) {
    case JsonTree::Kind::kNull:
      return Expr::literal("null");
    case JsonTree::Kind::kBoolean:
      return Expr::literal(value.boolean ? "true" : "false");
    case JsonTree::Kind::kNumber:
      return Expr::literal(value.text);
    case JsonTree::Kind::kString:
      return Expr::literal('"' + json_escaped(value.text) + '"');
    case JsonTree::Kind::kArray:
    case JsonTree::Kind::kObject:
      break;
  }
  const bool is_object = value.is(JsonTree::Kind::kObject);
  std::vector<Expr> parts;
  parts.push_back(Expr::literal(is_object ? "{" : "["));
  parts.push_back(json_.gap());
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) {
      parts.push_back(Expr::literal(","));
      parts.push_back(json_.gap());
    }
    if (is_object) {
      parts.push_back(Expr::literal('"' + json_escaped(value.names[i]) + '"'));
      parts.push_back(JsonRules::colon());
    }
    parts.push_back(literal_of(value.items[i]));
  }
  if (!value.items.empty()) parts.push_back(json_.gap());
  parts.push_back(Expr::literal(is_object ? "}" : "]"));
  return Expr::seq(std::move(parts));
}

NumberSpec SchemaBuilder::number_spec(const Conjunct& c) {
  NumberSpec spec;
  spec.integer = (c.types & kTypeFraction) == 0;
  spec.fraction = (c.types & kTypeInteger) == 0;
  spec.lower = c.lower;
  spec.upper = c.upper;
  spec.steps = c.steps;
  return spec;
}

Result<Expr> SchemaBuilder::number_of(const Conjunct& c) {
  const NumberSpec spec = number_spec(c);
  if (spec.is_free()) {
    return Expr::call(spec.integer ? json_.any_integer() : json_.any_number());
  }
  const auto [at, is_new] = by_key_.try_emplace("number " + spec.key(), 0);
  if (is_new) {
    HOLDFAST_TRY(Dfa dfa, number_dfa(spec, c.pointer, rules_.budget()));
    at->second = rules_.add("number at " + c.pointer, std::move(dfa));
  }
  return Expr::call(at->second);
}

Result<GrammarPtr> compile_json_schema(std::string_view schema_json, const GrammarLimits& limits) {
  const std::string operation = "compile JSON schema";
  if (schema_json.size() > limits.source_bytes_max) {
    return Error{Errc::kInvalidRequest,
                 operation + ": it has " + std::to_string(schema_json.size()) +
                     " bytes; expected at most " + std::to_string(limits.source_bytes_max)};
  }
  const Result<JsonTree> tree = parse_json_tree(schema_json, limits.depth_max);
  if (!tree) return Error{tree.error().code, operation + ": " + tree.error().what};
  Budget budget(limits);
  RuleSet rules(budget);
  SchemaBuilder builder(rules);
  HOLDFAST_TRY(const RuleId root, builder.build(*tree));
  return rules.assemble(root, operation);
}

}  // namespace holdfast::grammar
