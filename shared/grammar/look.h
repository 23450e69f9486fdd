#pragma once
// Expressions that look ahead and behind as automata: what is looked at ahead is a second automaton
// that must (or must not) accept the rest, run beside the first; what is looked at behind is one
// that has read all so far. All of it is exact.

#include "shared/grammar/dfa.h"

namespace holdfast::grammar {

bool has_looks(const Expr& expr);
/// Texts that `expr` matches as a whole. It calls no rules.
Dfa dfa_of_looks(const Expr& expr, Encoding encoding, Budget& budget);

}  // namespace holdfast::grammar
