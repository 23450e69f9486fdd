#pragma once
// Properties of every body that an endpoint reads, for the fuzzers of bodies.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "control/gateway/common/params.h"

namespace holdfast::fuzz {

using ParseBody = bool (*)(const nlohmann::ordered_json&, const gateway::ParamLimits&,
                           gateway::Generation*, FieldError*);

/// Reads a body of /v1/responses, as far as the chat that it becomes.
bool parse_turn(const nlohmann::ordered_json& body, const gateway::ParamLimits& limits,
                gateway::Generation* out, FieldError* error);

/// Checks that a body read twice gives the same: either a request to the daemon, within the bounds
/// of the body's size, or an error that names the parameter.
void check_body(std::string_view bytes, ParseBody parse);

}  // namespace holdfast::fuzz
