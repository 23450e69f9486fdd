// The server about itself: its version, and the description of its HTTP API.

#include "control/gateway/common/endpoints.h"
#include "openapi.h"
#include "shared/base/version.h"

namespace holdfast::gateway {

void get_version(Context&, const ExchangePtr& exchange, const Captures&) {
  Response response;
  response.body = std::string("{\"version\":\"") + kVersion + "\"}";
  exchange->respond(std::move(response));
}

void get_openapi(Context&, const ExchangePtr& exchange, const Captures&) {
  Response response;
  response.body = kOpenapi;
  exchange->respond(std::move(response));
}

}  // namespace holdfast::gateway
