#pragma once
// Rules that call each other become one Grammar.

#include <string>
#include <vector>

#include "shared/grammar/automata.h"
#include "shared/grammar/dfa.h"

namespace holdfast::grammar {

struct RuleSource {
  Dfa dfa;
  std::string name;  // for errors
};

/// Takes away what can never end and what is never reached. kInvalidRequest if the root derives no
/// text, kUnsupported for a rule that can call itself before it reads anything (named), the
/// budget's error if that is over. `operation` begins every error.
Result<GrammarPtr> assemble(const std::vector<RuleSource>& rules, RuleId root, Budget& budget,
                            const std::string& operation);

}  // namespace holdfast::grammar
