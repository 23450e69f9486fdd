#pragma once
// Unicode properties of regular expressions: \p{L}, \p{Script=Han}.

#include <optional>
#include <string>

#include "shared/grammar/char_set.h"

namespace holdfast::grammar {

/// Returns the property with the name between the braces: general categories, the most used scripts
/// and some properties of emoji. Cost: a walk over all code points.
std::optional<CharSet> unicode_property(const std::string& name);

}  // namespace holdfast::grammar
