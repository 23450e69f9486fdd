#include "shared/grammar/regex.h"
#include "shared/grammar/schema_builder.h"
#include "shared/grammar/schema_formats.h"

namespace holdfast::grammar {
namespace {

bool only_length(const Conjunct& c) {
  return c.patterns.empty() && c.not_patterns.empty() && c.other_texts.empty() && c.formats.empty();
}

bool is_free_string(const Conjunct& c) {
  return only_length(c) && c.min_length == 0 && !c.max_length;
}

Dfa length_dfa(const Conjunct& c, Budget& budget) {
  const std::uint32_t max = c.max_length ? *c.max_length : kUnlimited;
  const Expr characters = Expr::repeat(Expr::one_of(any_character()), c.min_length, max);
  return dfa_of_whole(characters, Encoding::kJson, budget);
}

Error length_error(const Conjunct& c, const Budget& budget) {
  return schema_error(Errc::kInvalidRequest, c.max_length ? "maxLength" : "minLength", c.pointer,
                      budget.error("count characters").what);
}

}  // namespace

Result<const Dfa*> SchemaBuilder::pattern_dfa(const std::string& pattern,
                                              const std::string& pointer) {
  const auto at = patterns_.find(pattern);
  if (at != patterns_.end()) return &std::as_const(at->second);
  const Result<Expr> expr = parse_regex(pattern, rules_.budget().limits().depth_max);
  if (!expr) return schema_error(expr.error().code, "pattern", pointer, expr.error().what);
  Dfa dfa = dfa_of_search(*expr, Encoding::kJson, rules_.budget());
  if (!rules_.budget().ok()) {
    return schema_error(Errc::kInvalidRequest, "pattern", pointer,
                        rules_.budget().error("compile regular expression").what);
  }
  return &std::as_const(patterns_.emplace(pattern, std::move(dfa)).first->second);
}

const Dfa& SchemaBuilder::format_dfa(const std::string& name) {
  const auto at = formats_.find(name);
  if (at != formats_.end()) return at->second;
  const Result<Expr> expr = parse_regex(format_pattern(name), 64);
  return formats_.emplace(name, dfa_of_whole(expr.value(), Encoding::kJson, rules_.budget()))
      .first->second;
}

Result<Dfa> SchemaBuilder::characters_of(const Conjunct& c) {
  Budget& budget = rules_.budget();
  std::vector<const Dfa*> parts;
  for (const std::string& pattern : c.patterns) {
    HF_TRY(const Dfa* dfa, pattern_dfa(pattern, c.pointer));
    parts.push_back(dfa);
  }
  for (const std::string& name : c.formats) parts.push_back(&format_dfa(name));
  const bool has_length = c.min_length > 0 || c.max_length;
  Dfa length;
  if (has_length || parts.empty()) {
    length = length_dfa(c, budget);
    if (!budget.ok()) return length_error(c, budget);
    parts.push_back(&length);
  }
  Dfa all = *parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) all = intersected(all, *parts[i], false, budget);
  for (const std::string& pattern : c.not_patterns) {
    HF_TRY(const Dfa* dfa, pattern_dfa(pattern, c.pointer));
    all = intersected(all, *dfa, true, budget);
  }
  if (!c.other_texts.empty()) {
    std::set<std::string> texts;
    for (const JsonTree* value : c.other_texts) texts.insert(value->text);
    all = intersected(all, dfa_of_texts(texts, budget), true, budget);
  }
  return all;
}

Result<Expr> SchemaBuilder::string_of(const Conjunct& c) {
  if (is_free_string(c)) return Expr::call(json_.any_string());
  std::string key = "string " + std::to_string(c.min_length) + " ";
  if (c.max_length) key += std::to_string(*c.max_length);
  for (const std::string& pattern : c.patterns) key += "\np" + pattern;
  for (const std::string& name : c.formats) key += "\nf" + name;
  for (const std::string& pattern : c.not_patterns) key += "\nn" + pattern;
  for (const JsonTree* value : c.other_texts) key += "\no" + json_escaped(value->text);
  const auto [at, is_new] = by_key_.try_emplace(key, 0);
  if (is_new && only_length(c)) {  // long ones are worth a shorter way
    const std::uint32_t max = c.max_length ? *c.max_length : kUnlimited;
    const Expr quote = Expr::literal("\"");
    const Expr characters = Expr::repeat(Expr::one_of(any_character()), c.min_length, max);
    at->second = rules_.add("string at " + c.pointer, Expr::seq({quote, characters, quote}),
                            Encoding::kJson);
    if (!rules_.budget().ok()) return length_error(c, rules_.budget());
  } else if (is_new) {
    HF_TRY(const Dfa characters, characters_of(c));
    Nfa nfa(rules_.budget());
    const std::uint32_t open = nfa.append_literal(0, "\"");
    nfa.set_accept(nfa.append_literal(append_dfa(nfa, open, characters), "\""));
    at->second = rules_.add("string at " + c.pointer, determinised(nfa));
  }
  return Expr::call(at->second);
}

Dfa dfa_of_texts(const std::set<std::string>& texts, Budget& budget) {
  Nfa nfa(budget);
  const std::uint32_t end = nfa.add_state();
  nfa.set_accept(end);
  for (const std::string& text : texts)
    nfa.add_empty(nfa.append_literal(0, json_escaped(text)), end);
  return determinised(nfa);
}

/// The texts that a schema allows for names: all strings that satisfy it.
Result<Dfa> SchemaBuilder::names_dfa(const SchemaSet& set) {
  HF_TRY(const std::vector<Conjunct> alternatives, reader_.alternatives(set));
  Nfa nfa(rules_.budget());
  const std::uint32_t end = nfa.add_state();
  nfa.set_accept(end);
  for (const Conjunct& c : alternatives) {
    if ((c.types & kTypeString) == 0) continue;
    HF_CHECKED(check_usable(c));
    if (!c.values) {
      HF_TRY(const Dfa characters, characters_of(c));
      nfa.add_empty(append_dfa(nfa, 0, characters), end);
      continue;
    }
    for (const JsonTree* value : *c.values) {
      HF_TRY(const bool good, admits(c, *value));
      if (!good || !value->is(JsonTree::Kind::kString)) continue;
      nfa.add_empty(nfa.append_literal(0, json_escaped(value->text)), end);
    }
  }
  return determinised(nfa);
}

}  // namespace holdfast::grammar
