#include "control/gateway/common/answers.h"

#include <nlohmann/json.hpp>

namespace holdfast::gateway {

Response json_response(const nlohmann::ordered_json& body) {
  Response response;
  response.body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return response;
}

}  // namespace holdfast::gateway
