#pragma once
// The JSON texts of the C interface: requests that come in, states that go out.

#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::sdk {

/// A request and whose it is.
struct Request {
  std::string tenant;
  wire::Submit submit;
};

/// Reads a request (holdfast.h lists its members). kInvalidRequest names the member that is wrong
/// or unknown.
Result<Request> parse_request(std::string_view text);

/// Returns the state of a request as a JSON object.
std::string state_json(const wire::RequestInfo& info);
/// Returns the models as a JSON list.
std::string models_json(const std::vector<wire::ModelInfo>& models);

}  // namespace holdfast::sdk
