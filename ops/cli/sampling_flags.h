#pragma once
// The flags of `run` for sampling parameters, one for each row of shared/sampling/parameters.h.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "ops/cli/verbs.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::cli {

/// Returns the flags: --temperature, --top-k, … Those with a reader of their own are not among
/// them.
std::vector<Argument> sampling_arguments();

/// Reads these flags into the parameters; others stay. kInvalidRequest for a value out of range, as
/// HTTP says.
Result<void> take_sampling(const Call& call, wire::Sampling* out);

/// Returns the flags that were given as members of a request over HTTP; take_sampling() has checked
/// them.
nlohmann::json sampling_body(const Call& call);

}  // namespace holdfast::cli
