#pragma once
// Regular expressions in the syntax of ECMA-262, as far as they are regular: no back references. Of
// flags "(?i)" is known, for the letters of ASCII.

#include <string>
#include <string_view>

#include "shared/grammar/dfa.h"
#include "shared/grammar/expr.h"

namespace holdfast::grammar {

constexpr std::size_t kRegexBytesMax = 16 * 1024;

/// The expression as an Expr with kBegin and kEnd in it. kInvalidRequest: malformed; kUnsupported:
/// not regular, or syntax that we do not know. The error's text has no operation in front: "at
/// character 3: …".
Result<Expr> parse_regex(std::string_view pattern, std::uint32_t depth_max);

/// Texts in which `expr` matches somewhere (as the keyword "pattern" means it).
Dfa dfa_of_search(const Expr& expr, Encoding encoding, Budget& budget);
/// Texts that `expr` matches as a whole.
Dfa dfa_of_whole(const Expr& expr, Encoding encoding, Budget& budget);

}  // namespace holdfast::grammar
