#pragma once
// Unicode properties as regular expressions name them: \p{L}, \p{Script=Han}.

#include <optional>
#include <string>

#include "shared/grammar/char_set.h"

namespace holdfast::grammar {

/// `name`: what stands between the braces. Known are general categories, the most used scripts and
/// some properties of emoji. Cost: a walk over all code points.
std::optional<CharSet> unicode_property(const std::string& name);

}  // namespace holdfast::grammar
