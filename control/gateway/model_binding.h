#pragma once
// A chat request made one for its model: what could not be said before it was known how the model
// writes.

#include "control/gateway/params.h"

namespace holdfast::gateway {

/// Shape::output is how the model writes (chat::describe_output). It becomes how this answer
/// begins, and the sampling is bound to what was asked of reasoning and of calls.
void bind_to_model(Generation* generation);

}  // namespace holdfast::gateway
