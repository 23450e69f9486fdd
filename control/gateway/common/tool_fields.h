#pragma once
// The tools of a chat request, and which of them it must call.

#include "control/gateway/common/params.h"
#include "shared/base/json_fields.h"

namespace holdfast::gateway {

/// Reads tools, tool_choice and parallel_tool_calls, or their older forms functions and
/// function_call. The template's part of them goes into `root`.
void read_tools(Fields& fields, nlohmann::ordered_json* root, Generation* out);

/// Bounds the answer to calls of Generation::must_call, in the form of the model's family
/// (Shape::output). Where a grammar cannot bound that form, it becomes Llama 3's.
void bind_to_calls(Generation* generation);

}  // namespace holdfast::gateway
