#pragma once
// The rules of a grammar while a front end builds them.

#include <string>
#include <utility>
#include <vector>

#include "shared/base/check.h"
#include "shared/grammar/assemble.h"

namespace holdfast::grammar {

/// A growing set of rules. Not thread-safe.
class RuleSet {
 public:
  explicit RuleSet(Budget& budget) : budget_(budget) {}
  Budget& budget() { return budget_; }

  /// Reserves a rule to be set later: rules may call it before. Until then it derives nothing.
  RuleId reserve(std::string name) {
    budget_.take_rules(1);
    Dfa nothing;
    nothing.accepting.push_back(0);
    nothing.next.push_back(Dfa::kDead);
    nothing.calls.resize(1);
    rules_.push_back({std::move(nothing), std::move(name)});
    return static_cast<RuleId>(rules_.size() - 1);
  }
  void set(RuleId rule, Dfa dfa) {
    CHECK(rule < rules_.size());
    rules_[rule].dfa = std::move(dfa);
  }
  void set(RuleId rule, const Expr& expr, Encoding encoding = Encoding::kUtf8) {
    Nfa nfa(budget_);
    nfa.set_accept(nfa.append(0, expr, encoding));
    set(rule, determinised(nfa));
  }
  RuleId add(std::string name, Dfa dfa) {
    const RuleId rule = reserve(std::move(name));
    set(rule, std::move(dfa));
    return rule;
  }
  RuleId add(std::string name, const Expr& expr, Encoding encoding = Encoding::kUtf8) {
    const RuleId rule = reserve(std::move(name));
    set(rule, expr, encoding);
    return rule;
  }
  const Dfa& dfa(RuleId rule) const { return rules_[rule].dfa; }
  Result<GrammarPtr> assemble(RuleId root, const std::string& operation) {
    return grammar::assemble(rules_, root, budget_, operation);
  }

 private:
  Budget& budget_;
  std::vector<RuleSource> rules_;
};

}  // namespace holdfast::grammar
