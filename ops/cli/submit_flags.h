#pragma once
// A request as the flags of a verb say it: `run` and `chat`.

#include <vector>

#include "ops/cli/verbs.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::cli {

/// Returns the flags that both verbs have: --max-tokens, the sampling parameters, --seed, --stop.
std::vector<Argument> generation_arguments();

/// Returns the request of these flags, without its model and its prompt, in the interactive class.
/// kInvalidRequest for a value out of range, as HTTP says.
Result<wire::Submit> make_submit(const Call& call);

}  // namespace holdfast::cli
