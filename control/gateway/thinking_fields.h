#pragma once
// What a chat request says of reasoning, in the words of several APIs: whether the model is to
// reason, and for how many tokens at most.

#include "control/gateway/json_fields.h"
#include "control/gateway/params.h"

namespace holdfast::gateway {

/// Reads thinking, reasoning, reasoning_effort, enable_thinking, thinking_token_budget and the
/// like. What the template is to know goes into the kwargs of `root`. To be called when max_tokens
/// is known.
void read_thinking(Fields& fields, nlohmann::ordered_json* root, Generation* out);

/// Bounds the reasoning as the model's family writes it (Shape::output). What has no effect on such
/// a model is named as ignored.
void bind_thinking(Generation* generation);

}  // namespace holdfast::gateway
