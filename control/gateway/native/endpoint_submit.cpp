// POST /v1/requests: a request as the client libraries make it. It is answered once the request is
// durable; GET /v1/requests/{id}/stream?form=tokens has its tokens.

#include <nlohmann/json.hpp>
#include <utility>

#include "control/gateway/common/answers.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/params.h"
#include "control/gateway/common/post_headers.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "shared/base/crash_point.h"
#include "shared/base/json_text.h"
#include "shared/request_json/request_json.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr int kAcceptedStatus = 202;

/// Checks what the gateway bounds for every API.
bool check_bounds(const wire::Submit& submit, const ParamLimits& limits, FieldError* error) {
  if (submit.n > limits.n) {
    *error = {"'n' must be at most " + std::to_string(limits.n), "n"};
  } else if (submit.stops.size() > limits.stops) {
    *error = {"'stop' must have at most " + std::to_string(limits.stops) + " texts", "stop"};
  }
  for (const std::string& stop : submit.stops) {
    if (stop.size() <= limits.stop_bytes) continue;
    *error = {"a text of 'stop' must have at most " + std::to_string(limits.stop_bytes) + " bytes",
              "stop"};
  }
  return error->message.empty();
}

/// Checks that the tenant, if one is named, is the caller's own: a key decides whose a request is.
bool check_tenant(const std::string& tenant, const Request& request, FieldError* error) {
  if (tenant.empty() || tenant == request.from.tenant()) return true;
  *error = {"'tenant' is that of the key; leave it out", "tenant"};
  return false;
}

/// Joins the key of the body with that of the header.
bool join_keys(const std::string& header, wire::Submit* submit, FieldError* error) {
  if (header.empty()) return true;
  if (!submit->idem_key.empty() && submit->idem_key != header) {
    *error = {"'key' and the header Idempotency-Key differ; expected one of them", "key"};
    return false;
  }
  submit->idem_key = header;
  return true;
}

/// Makes what is submitted of a POST.
bool read_submission(Context& context, const Request& request, wire::Submit* out,
                     std::vector<std::string>* ignored, FieldError* error) {
  json body;
  request_json::Request read;
  std::string key;
  if (!read_idem_key(request, &key, error) || !parse_json_object(request.body, &body, error) ||
      !request_json::read_request(body, &read, error) ||
      !check_tenant(read.tenant, request, error) ||
      !check_bounds(read.submit, context.params, error) || !join_keys(key, &read.submit, error)) {
    return false;
  }
  *out = std::move(read.submit);
  Shape shape;
  shape.api = Api::kTokens;
  shape.stream = true;
  shape.choices = out->n;
  shape.body_hash = hash_body(request.path, body);
  shape.client_id = client_request_id(request);
  out->request_id = context.new_request_id();
  out->body_hash = shape.body_hash;
  out->meta = encode_shape(shape);
  put_limits(request, out, ignored);
  return true;
}

Response accepted_response(const wire::Accepted& accepted,
                           const std::vector<std::string>& ignored) {
  Response response = json_response(try_parse_json<json>(request_json::state_json(accepted.info)));
  response.status = kAcceptedStatus;
  response.headers = answer_headers(ignored, accepted.duplicate, accepted.key, accepted.notes);
  response.headers.emplace_back("X-Request-Id", accepted.info.request_id);
  return response;
}

}  // namespace

void post_request(Context& context, const ExchangePtr& exchange, const Captures&) {
  wire::Submit submit;
  std::vector<std::string> ignored;
  FieldError error;
  if (!read_submission(context, exchange->request(), &submit, &ignored, &error)) {
    return exchange->respond(error_response(error));
  }
  crash_point(CrashPoint::kGatewaySubmitBefore);
  context.client.submit_async(
      exchange->request().from, std::move(submit),
      on_strand<wire::Accepted>(exchange, [exchange, ignored](const wire::Accepted& accepted) {
        crash_point(CrashPoint::kGatewaySubmitAfter);
        exchange->respond(accepted_response(accepted, ignored));
      }));
}

}  // namespace holdfast::gateway
