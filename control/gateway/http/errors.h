#pragma once
// Errors as HTTP tells them: one table from our typed codes to statuses and OpenAI's error types,
// and the body {"error": {message, type, param, code, …numbers}}.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/http/http_types.h"
#include "shared/base/json_fields.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// Returns the caller on whose behalf the daemon is asked: the request's tenant, or all tenants for
/// an operator.
client::Caller caller_of(const Request& request);

/// Returns the answer for an id that cannot exist: the same as the daemon's for an unknown id.
Response no_such_request(const std::string& id);

/// Returns the HTTP status of a code: 4xx where the request is the cause, 5xx where the server is.
int http_status(Errc code);

/// Returns {"error":{…}} for a refusal with the numbers that apply. For 429 and 503 retry_after_ms
/// is also sent as Retry-After, in seconds, rounded up, at least 1.
Response error_response(const wire::Refusal& refusal, const std::string& param = {});
/// Returns 400, naming the parameter.
Response error_response(const FieldError& error);
/// Returns an error of HTTP itself; its code is that of kInvalidRequest for 4xx, of kInternal for
/// 5xx.
Response error_response(int status, const std::string& message);

/// Returns an error's body in the form of the API that `path` belongs to: Anthropic's below
/// /v1/messages, Ollama's below /api, else unchanged.
std::string error_for(std::string_view path, int status, std::string body);

/// Returns 503 for a request that ran out of memory; the client may retry.
Response memory_response();

/// Returns the refusal for a stream that the gateway's end cuts: the request goes on, and the
/// message says how the client gets the rest.
wire::Refusal stopping(const std::string& request_id);

/// Returns x-ratelimit-… headers as OpenAI has them; none without such a limit.
std::vector<Header> rate_headers(const std::optional<wire::KeyStanding>& key);

/// Returns the body alone, for an event of a stream. `choice` < 0: the error is of the whole
/// request.
std::string error_body(const wire::Refusal& refusal, const std::string& param, int choice = -1);

}  // namespace holdfast::gateway
