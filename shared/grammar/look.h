#pragma once
// Expressions with lookaheads and lookbehinds as automata. A lookahead is a second automaton that
// must (or must not) accept the rest, and runs in parallel; a lookbehind is one that has read all
// text so far. The result is exact.

#include "shared/grammar/dfa.h"

namespace holdfast::grammar {

/// True if the expression has a lookahead or lookbehind anywhere, so that it needs dfa_of_looks().
bool has_looks(const Expr& expr);
/// Returns the texts that `expr` matches as a whole, as an automaton that calls no rules.
Dfa dfa_of_looks(const Expr& expr, Encoding encoding, Budget& budget);

}  // namespace holdfast::grammar
