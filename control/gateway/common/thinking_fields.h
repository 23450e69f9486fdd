#pragma once
// Options of reasoning in a chat request, in the words of several APIs: whether the model is to
// reason, and for how many tokens at most.

#include "control/gateway/common/params.h"
#include "shared/base/json_fields.h"

namespace holdfast::gateway {

/// Reads thinking, reasoning, reasoning_effort, enable_thinking, thinking_token_budget and the
/// like. The template's part of it goes into the kwargs of `root`. Call it after max_tokens was
/// read.
void read_thinking(Fields& fields, nlohmann::ordered_json* root, Generation* out);

/// Bounds the reasoning as the model's family writes it (Shape::output). Fields that have no effect
/// on such a model are named as ignored.
void bind_thinking(Generation* generation);

}  // namespace holdfast::gateway
