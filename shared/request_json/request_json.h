#pragma once
// JSON texts of requests as the C library takes them, and of their states. POST /v1/requests takes
// the same.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/json_fields.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::request_json {

/// A request and whose it is.
struct Request {
  std::string tenant;  // empty: not said
  wire::Submit submit;
};

/// Reads a request (holdfast.h lists its members). Returns false if it is refused; `error` names
/// the member that is wrong or unknown.
bool read_request(const nlohmann::ordered_json& object, Request* out, FieldError* error);
/// Parses and reads a request. kInvalidRequest for what is no JSON, or refused.
Result<Request> parse_request(std::string_view text);

/// Returns the state of a request as a JSON object.
std::string state_json(const wire::RequestInfo& info);
/// Returns the models as a JSON list.
std::string models_json(const std::vector<wire::ModelInfo>& models);

}  // namespace holdfast::request_json
