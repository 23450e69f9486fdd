#pragma once
// The tools of a chat request, and which of them it must call.

#include "control/gateway/json_fields.h"
#include "control/gateway/params.h"

namespace holdfast::gateway {

/// Reads tools, tool_choice and parallel_tool_calls, or functions and function_call, their words of
/// old. What the template is to show goes to `root`.
void read_tools(Fields& fields, nlohmann::ordered_json* root, Generation* out);

/// Bounds the answer to calls of Generation::must_call, in the words of the model's family
/// (Shape::output), or in others that shared/chat knows where those cannot be bounded.
void bind_to_calls(Generation* generation);

}  // namespace holdfast::gateway
