#include <algorithm>
#include <map>
#include <optional>

#include "shared/grammar/regex.h"
#include "shared/grammar/schema_builder.h"
#include "shared/grammar/schema_formats.h"

namespace holdfast::grammar {
namespace {

bool only_length(const Conjunct& c) {
  return c.patterns.empty() && c.not_patterns.empty() && c.other_texts.empty() && c.formats.empty();
}

bool is_any_length(const Conjunct& c) {
  return c.min_length == 0 && !c.max_length;
}

bool is_free_string(const Conjunct& c) {
  return only_length(c) && is_any_length(c);
}

constexpr std::uint32_t kCountedStatesMax = 80'000;

/// Restricts an automaton to texts of `min` to `max` characters.
class Lengths {
 public:
  Lengths(const Dfa& dfa, std::uint32_t min, std::uint32_t max, Budget& budget)
      : dfa_(dfa),
        one_(dfa_of_whole(Expr::one_of(any_character()), Encoding::kJson, budget)),
        min_(min),
        max_(max),
        budget_(budget) {}

  /// Returns nullopt if that takes too many states.
  std::optional<Dfa> build() {
    classify_bytes();
    add({0, 0, 0});
    for (std::uint32_t i = 0; i < moments_.size() && budget_.take_work(out_.classes); ++i) {
      if (moments_.size() > kCountedStatesMax) return std::nullopt;
      for (std::uint32_t c = 0; c < out_.classes; ++c) out_.next.push_back(step(moments_[i], c));
    }
    out_.next.resize(moments_.size() * out_.classes, Dfa::kDead);
    out_.calls.resize(moments_.size());
    if (!budget_.take_states(moments_.size())) return out_;
    return trimmed(out_);
  }

 private:
  struct Moment {
    std::uint32_t state;
    std::uint32_t within;  // within a character
    std::uint32_t count;
    auto operator<=>(const Moment&) const = default;
  };

  void classify_bytes() {
    std::bitset<257> begins;
    for (std::size_t byte = 1; byte < 256; ++byte) {
      begins[byte] = dfa_.class_of[byte] != dfa_.class_of[byte - 1] ||
                     one_.class_of[byte] != one_.class_of[byte - 1];
    }
    out_.classes = classify(begins, out_.class_of);
    byte_of_.resize(out_.classes);
    for (std::size_t byte = 256; byte-- > 0;) {
      byte_of_[out_.class_of[byte]] = static_cast<std::uint8_t>(byte);
    }
  }
  std::uint32_t step(Moment at, std::uint32_t c) {
    at.state = dfa_.step(at.state, byte_of_[c]);
    at.within = one_.step(at.within, byte_of_[c]);
    if (at.state == Dfa::kDead || at.within == Dfa::kDead) return Dfa::kDead;
    if (one_.accepting[at.within] == 0) return add(at);
    at.within = 0;
    if (at.count >= max_) return Dfa::kDead;
    if (max_ != kUnlimited || at.count < min_) ++at.count;
    return add(at);
  }
  std::uint32_t add(const Moment& moment) {
    const auto [at, is_new] = ids_.try_emplace(moment, static_cast<std::uint32_t>(moments_.size()));
    if (is_new) {
      moments_.push_back(moment);
      const bool ends = moment.within == 0 && moment.count >= min_;
      out_.accepting.push_back(ends ? dfa_.accepting[moment.state] : std::uint8_t{0});
    }
    return at->second;
  }

  const Dfa& dfa_;
  const Dfa one_;
  const std::uint32_t min_;
  const std::uint32_t max_;
  Budget& budget_;
  Dfa out_;
  std::vector<std::uint8_t> byte_of_;
  std::map<Moment, std::uint32_t> ids_;
  std::vector<Moment> moments_;
};

/// Puts quotes around texts, which contain quotes as escapes alone.
Dfa quoted(const Dfa& dfa, Budget& budget) {
  budget.take_states(2);
  Dfa out;
  out.class_of = dfa.class_of;
  out.class_of['"'] = static_cast<std::uint8_t>(dfa.classes);
  out.classes = dfa.classes + 1;
  const std::uint32_t end = dfa.size() + 1;
  out.next.assign(std::size_t{out.classes} * (end + 1), Dfa::kDead);
  out.accepting.assign(end + 1, 0);
  out.accepting[end] = 1;
  out.calls.resize(end + 1);
  const auto edge = [&](std::uint32_t from, std::uint32_t c) -> std::uint32_t& {
    return out.next[std::size_t{from} * out.classes + c];
  };
  edge(0, dfa.classes) = 1;
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {
    for (std::uint32_t c = 0; c < dfa.classes; ++c) {
      const std::uint32_t to = dfa.next[std::size_t{s} * dfa.classes + c];
      if (to != Dfa::kDead) edge(s + 1, c) = to + 1;
    }
    const std::uint32_t escaped = dfa.step(s, '"');  // after a backslash
    if (escaped != Dfa::kDead) edge(s + 1, dfa.classes) = escaped + 1;
    if (dfa.accepting[s] != 0) edge(s + 1, dfa.classes) = end;
  }
  return out;
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

/// Returns null where the pattern of the same schema contradicts the format ("time" without a
/// zone), or both take too many states: a format only annotates, and a pattern is stricter.
Result<const Dfa*> SchemaBuilder::format_dfa(const std::string& format,
                                             const std::string& pointer) {
  const std::size_t line = format.find('\n');
  const std::string name = format.substr(0, line);
  auto at = formats_.find(name);
  if (at == formats_.end()) {
    const Result<Expr> expr = parse_regex(format_pattern(name), 64);
    Dfa dfa = dfa_of_whole(expr.value(), Encoding::kJson, rules_.budget());
    at = formats_.emplace(name, std::move(dfa)).first;
  }
  const Dfa* found = &at->second;
  if (line == std::string::npos) return found;
  HOLDFAST_TRY(const Dfa* pattern, pattern_dfa(format.substr(line + 1), pointer));
  GrammarLimits limits = rules_.budget().limits();
  limits.states_max = kCountedStatesMax;
  Budget scratch_budget(limits);
  const bool is_empty = intersected(*found, *pattern, false, scratch_budget).is_empty();
  return is_empty || !scratch_budget.ok() ? nullptr : found;
}

namespace {

std::set<std::string> texts_of(const std::vector<const JsonTree*>& values) {
  std::set<std::string> texts;
  for (const JsonTree* value : values) texts.insert(value->text);
  return texts;
}

}  // namespace

Result<Dfa> SchemaBuilder::characters_of(const Conjunct& c) {
  Budget& budget = rules_.budget();
  std::optional<Dfa> matching;  // nullopt: any characters
  const auto narrow = [&](const Dfa& more) {
    matching = matching ? intersected(*matching, more, false, budget) : more;
  };
  for (const std::string& pattern : c.patterns) {
    HOLDFAST_TRY(const Dfa* dfa, pattern_dfa(pattern, c.pointer));
    narrow(*dfa);
  }
  for (const std::string& format : c.formats) {
    HOLDFAST_TRY(const Dfa* dfa, format_dfa(format, c.pointer));
    if (dfa != nullptr) narrow(*dfa);
  }
  Dfa all =
      matching ? std::move(*matching) : dfa_of_whole(any_characters(), Encoding::kJson, budget);
  for (const std::string& pattern : c.not_patterns) {
    HOLDFAST_TRY(const Dfa* dfa, pattern_dfa(pattern, c.pointer));
    all = intersected(all, *dfa, true, budget);
  }
  if (!c.other_texts.empty()) {
    all = intersected(all, dfa_of_texts(texts_of(c.other_texts), budget), true, budget);
  }
  return with_length(c, all);
}

/// Limits the length. A maximum that takes too many states next to a pattern is halved until it
/// fits.
Result<Dfa> SchemaBuilder::with_length(const Conjunct& c, const Dfa& dfa) {
  if (is_any_length(c)) return dfa;
  HOLDFAST_CHECKED(check_minimum("minLength", c.min_length, c.pointer));
  std::uint32_t max = kUnlimited;
  if (c.max_length) max = std::min(*c.max_length, kCountedStatesMax);  // counted no further
  while (rules_.budget().ok()) {
    std::optional<Dfa> found = Lengths(dfa, c.min_length, max, rules_.budget()).build();
    if (found && rules_.budget().ok()) return std::move(*found);
    if (max == kUnlimited || max / 2 < c.min_length) break;
    max /= 2;
  }
  if (rules_.budget().ok()) rules_.budget().take_states(rules_.budget().limits().states_max);
  return length_error(c, rules_.budget());
}

/// Refuses a minimum that no generated text could reach.
Result<void> SchemaBuilder::check_minimum(const std::string& keyword, std::uint32_t min,
                                          const std::string& pointer) {
  if (min <= kMinimumMax) return {};
  return schema_error(Errc::kInvalidRequest, keyword, pointer,
                      "expected at most " + std::to_string(kMinimumMax));
}

namespace {

/// Returns a text that is equal for strings of equal constraints.
std::string string_key(const Conjunct& c) {
  std::string key = "string " + std::to_string(c.min_length) + " ";
  if (c.max_length) key += std::to_string(*c.max_length);
  for (const std::string& pattern : c.patterns) key += "\np" + pattern;
  for (const std::string& name : c.formats) key += "\nf" + name;
  for (const std::string& pattern : c.not_patterns) key += "\nn" + pattern;
  for (const JsonTree* value : c.other_texts) key += "\no" + json_escaped(value->text);
  return key;
}

}  // namespace

/// Adds the rule of strings whose length alone is limited.
Result<RuleId> SchemaBuilder::rule_of_length(const Conjunct& c) {
  const Expr quote = Expr::literal("\"");
  const std::uint32_t max = c.max_length ? *c.max_length : kUnlimited;
  const bool is_long =
      c.min_length > Counted::kPlainMax || (c.max_length && max > Counted::kPlainMax);
  if (is_long) {
    HOLDFAST_CHECKED(check_minimum("minLength", c.min_length, c.pointer));
    const RuleId counted = long_strings_.between(c.min_length, max);
    return rules_.add("string at " + c.pointer, Expr::seq({quote, Expr::call(counted)}));
  }
  const Expr characters = Expr::repeat(Expr::one_of(any_character()), c.min_length, max);
  const RuleId rule =
      rules_.add("string at " + c.pointer, Expr::seq({quote, characters, quote}), Encoding::kJson);
  if (!rules_.budget().ok()) return length_error(c, rules_.budget());
  return rule;
}

/// Adds the rule of strings whose characters are limited by patterns, formats or other texts.
Result<RuleId> SchemaBuilder::rule_of_characters(const Conjunct& c) {
  HOLDFAST_TRY(const Dfa characters, characters_of(c));
  const RuleId rule = rules_.add("string at " + c.pointer, quoted(characters, rules_.budget()));
  if (!rules_.budget().ok()) {
    return schema_error(Errc::kInvalidRequest, c.patterns.empty() ? "format" : "pattern", c.pointer,
                        rules_.budget().error("match characters").what);
  }
  return rule;
}

Result<Expr> SchemaBuilder::string_of(const Conjunct& c) {
  if (is_free_string(c)) return Expr::call(json_.any_string());
  const auto [at, is_new] = by_key_.try_emplace(string_key(c), 0);
  if (is_new) {
    HOLDFAST_TRY(at->second, only_length(c) ? rule_of_length(c) : rule_of_characters(c));
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

/// Returns the texts that a schema allows for names: all strings that satisfy it.
Result<Dfa> SchemaBuilder::names_dfa(const SchemaSet& set) {
  HOLDFAST_TRY(const std::vector<Conjunct> alternatives, reader_.alternatives(set));
  Nfa nfa(rules_.budget());
  const std::uint32_t end = nfa.add_state();
  nfa.set_accept(end);
  for (const Conjunct& c : alternatives) {
    if ((c.types & kTypeString) == 0) continue;
    HOLDFAST_CHECKED(check_usable(c));
    if (!c.values) {
      HOLDFAST_TRY(const Dfa characters, characters_of(c));
      nfa.add_empty(append_dfa(nfa, 0, characters), end);
      continue;
    }
    for (const JsonTree* value : *c.values) {
      HOLDFAST_TRY(const bool good, admits(c, *value));
      if (!good || !value->is(JsonTree::Kind::kString)) continue;
      nfa.add_empty(nfa.append_literal(0, json_escaped(value->text)), end);
    }
  }
  return determinised(nfa);
}

}  // namespace holdfast::grammar
