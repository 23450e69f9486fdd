#pragma once
// The body of /v1/messages (Anthropic's Messages API), read as a chat's.

#include "control/gateway/common/params.h"

namespace holdfast::gateway {

/// Returns false if the body is refused; `error` names the parameter.
bool parse_message(const nlohmann::ordered_json& body, const ParamLimits& limits, Generation* out,
                   FieldError* error);

}  // namespace holdfast::gateway
