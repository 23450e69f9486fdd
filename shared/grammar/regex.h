#pragma once
// Regular expressions in the syntax of ECMA-262, as far as they are regular: no back references.
// The only flag is "(?i)", for ASCII letters.

#include <string>
#include <string_view>

#include "shared/grammar/dfa.h"
#include "shared/grammar/expr.h"

namespace holdfast::grammar {

constexpr std::size_t kRegexBytesMax = 16 * 1024;

/// Parses an expression into an Expr with kBegin and kEnd in it. kInvalidRequest: malformed;
/// kUnsupported: not regular, or unknown syntax. The error's text does not begin with an operation:
/// "at character 3: …".
Result<Expr> parse_regex(std::string_view pattern, std::uint32_t depth_max);

/// Returns the texts in which `expr` matches somewhere (the meaning of the keyword "pattern").
Dfa dfa_of_search(const Expr& expr, Encoding encoding, Budget& budget);
/// Returns the texts that `expr` matches as a whole.
Dfa dfa_of_whole(const Expr& expr, Encoding encoding, Budget& budget);

}  // namespace holdfast::grammar
