#pragma once
// Binds a chat request to its model: what depends on how the model writes.

#include "control/gateway/common/params.h"

namespace holdfast::gateway {

/// Binds the sampling to the options of reasoning and calls. On entry Shape::output describes how
/// the model writes (chat::describe_output); on return, how this answer begins.
void bind_to_model(Generation* generation);

}  // namespace holdfast::gateway
