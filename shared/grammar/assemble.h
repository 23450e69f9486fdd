#pragma once
// Assembles rules that call each other into one Grammar.

#include <string>
#include <vector>

#include "shared/grammar/automata.h"
#include "shared/grammar/dfa.h"

namespace holdfast::grammar {

/// A rule as a front end builds it.
struct RuleSource {
  Dfa dfa;
  std::string name;  // for errors
};

/// Assembles the rules, without states that never reach an end and rules that are never reached.
/// kInvalidRequest if the root derives no text, kUnsupported for a rule that can call itself before
/// it reads anything (named), the budget's error if that is exhausted. `operation` begins every
/// error.
Result<GrammarPtr> assemble(const std::vector<RuleSource>& rules, RuleId root, Budget& budget,
                            const std::string& operation);

}  // namespace holdfast::grammar
