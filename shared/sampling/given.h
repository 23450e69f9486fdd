#pragma once
// The options that a client has set itself, for wire::Submit::given: a profile of the model
// (shared/profile/profile.h) gives the others.

#include <string>
#include <vector>

#include "shared/sampling/parameters.h"

namespace holdfast::sampling {

/// Returns the names of a request's options; `has(name)` tells whether the request has the member
/// of that name.
template <class Has>
std::vector<std::string> given_options(const Has& has) {
  std::vector<std::string> out;
  for (const char* name : {"stop", "max_tokens"}) {
    if (has(std::string_view(name))) out.emplace_back(name);
  }
  for (const Parameter& parameter : kParameters) {
    const bool alias = !parameter.alias.empty() && has(parameter.alias);
    if (alias || has(parameter.name)) out.emplace_back(parameter.name);
  }
  return out;
}

}  // namespace holdfast::sampling
