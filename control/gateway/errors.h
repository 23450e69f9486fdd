#pragma once
// Errors as HTTP says them: one table from our typed codes to status and OpenAI's error types, and
// the body {"error": {message, type, param, code, …numbers}}.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/http_types.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// The caller that a request's questions are asked for: its tenant, of an operator every tenant.
client::Caller caller_of(const Request& request);

/// Says of an id that cannot be one what the daemon says of one that is not there, or not theirs.
Response no_such_request(const std::string& id);

/// Something wrong with a request's fields: 400, naming the parameter.
struct FieldError {
  std::string message;
  std::string param;
};

int http_status(Errc code);

/// {"error":{…}} for a refusal; its numbers that apply are in it, retry_after_ms also as
/// Retry-After (rounded up, at least 1 s) for 429 and 503.
Response error_response(const wire::Refusal& refusal, const std::string& param = {});
Response error_response(const FieldError& error);
/// For HTTP's own trouble; the code is kInvalidRequest's for 4xx, kInternal's for 5xx.
Response error_response(int status, const std::string& message);

/// An error's body as the API of `path` has it: Anthropic's below /v1/messages, else as it is.
std::string error_for(std::string_view path, int status, std::string body);

/// There was no memory for it: 503, come again.
Response memory_response();

/// The server ends, the request goes on: how its client gets the rest.
wire::Refusal stopping(const std::string& request_id);

/// x-ratelimit-…, as OpenAI has them; none without such a limit.
std::vector<Header> rate_headers(const std::optional<wire::KeyStanding>& key);

/// The body alone, for an event of a stream. `choice` < 0: of the whole request.
std::string error_body(const wire::Refusal& refusal, const std::string& param, int choice = -1);

}  // namespace holdfast::gateway
