#include "control/gateway/http/errors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

/// Returns the error's type in OpenAI's words.
std::string_view error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

/// Returns the message. For a full context it has the words that programs look for before they
/// shorten their conversation.
std::string message_of(const wire::Refusal& refusal) {
  const bool context = refusal.code == Errc::kContextExceeded &&
                       refusal.message.find(" the context of ") != std::string::npos;
  if (!context) return refusal.message;
  return "This model's maximum context length is " + std::to_string(refusal.largest) +
         " tokens: " + refusal.message;
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string body_of(const wire::Refusal& refusal, std::string_view type, std::string_view code,
                    const std::string& param, int choice) {
  nlohmann::ordered_json error;
  error["message"] = message_of(refusal);
  error["type"] = type;
  error["param"] = param.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(param);
  error["code"] = code;
  if (code != errc_name(refusal.code)) error["holdfast_code"] = errc_name(refusal.code);
  if (choice >= 0) error["choice"] = choice;
  const std::pair<const char*, std::int64_t> numbers[] = {
      {"needed", refusal.needed},
      {"free", refusal.free},
      {"largest", refusal.largest},
      {"retry_after_ms", refusal.retry_after_ms},
      {"queue_position", refusal.queue_position},
      {"eta_ms", refusal.eta_ms},
  };
  for (const auto& [name, value] : numbers) {
    if (value >= 0) error[name] = value;
  }
  nlohmann::ordered_json body;
  body["error"] = std::move(error);
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Ollama's form of an error is its text alone; the code stands beside it.
std::string ollama_error(const std::string& body) {
  const auto document = try_parse_json<nlohmann::ordered_json>(body);
  if (!document.is_object() || !document.contains("error")) return body;
  const nlohmann::ordered_json& error = document["error"];
  nlohmann::ordered_json out = {{"error", error["message"]}, {"code", error["code"]}};
  if (error["code"] == errc_name(Errc::kModelNotFound)) {
    out["error"] = "model not found: " + error["message"].get<std::string>();
  }
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Returns "120ms", "9s", "1m0s": durations as OpenAI writes them.
std::string duration_text(std::int64_t ms) {
  if (ms < 1000) return std::to_string(ms) + "ms";
  const std::int64_t seconds = (ms + 999) / 1000;
  const std::string rest = std::to_string(seconds % 60) + "s";
  return seconds < 60 ? rest : std::to_string(seconds / 60) + "m" + rest;
}

}  // namespace

Response memory_response() {
  wire::Refusal refusal;
  refusal.code = Errc::kMemoryExhausted;
  refusal.message = "the gateway has no memory for this request; send a smaller one, or later";
  refusal.retry_after_ms = 1'000;
  return error_response(refusal);
}

std::vector<Header> rate_headers(const std::optional<wire::KeyStanding>& key) {
  if (!key) return {};
  return {{"x-ratelimit-limit-requests", std::to_string(key->limit)},
          {"x-ratelimit-remaining-requests", std::to_string(key->left)},
          {"x-ratelimit-reset-requests", duration_text(key->reset_ms)}};
}

client::Caller caller_of(const Request& request) {
  if (const auto all = client::AllTenants::of(request.from)) return *all;
  return request.from;
}

Response no_such_request(const std::string& id) {
  wire::Refusal refusal;
  refusal.code = Errc::kNotFound;
  refusal.message = "no request with id " + id;
  return error_response(refusal);
}

int http_status(Errc code) {
  switch (code) {
    case Errc::kQueueFull:
    case Errc::kRateLimited:
      return 429;
    case Errc::kContextExceeded:
    case Errc::kInvalidRequest:
    case Errc::kNoChatTemplate:
    case Errc::kUsage:
    case Errc::kUnsupported:
      return 400;
    case Errc::kUnauthorized:
      return 401;
    case Errc::kModelNotFound:
    case Errc::kNotFound:
      return 404;
    case Errc::kConflict:
    case Errc::kCancelled:
      return 409;
    case Errc::kIdempotencyMismatch:
      return 422;
    case Errc::kMemoryExhausted:
    case Errc::kDeadlineUnreachable:
    case Errc::kModelFailed:
    case Errc::kPlacementUnsupported:
    case Errc::kDraining:
    case Errc::kNoStandby:
    case Errc::kUnreachable:
    case Errc::kDeterminismClassUnavailable:
      return 503;
    case Errc::kTimeout:
    case Errc::kExpired:
      return 504;
    case Errc::kStorageFull:
    case Errc::kDiskFull:
      return 507;
    case Errc::kQuarantined:
    case Errc::kIo:
    case Errc::kFileInvalid:
    case Errc::kStorage:
    case Errc::kCorrupt:
    case Errc::kVersionNewer:
    case Errc::kWorkerLost:
    case Errc::kNumericsNan:
    case Errc::kDeterminismViolation:
    case Errc::kStaleFence:
    case Errc::kInternal:
      return 500;
  }
  return 500;
}

std::string error_body(const wire::Refusal& refusal, const std::string& param, int choice) {
  // OpenAI's codes where it has some.
  const bool limited = refusal.code == Errc::kRateLimited;
  const std::string_view code = limited                                  ? "rate_limit_exceeded"
                                : refusal.code == Errc::kContextExceeded ? "context_length_exceeded"
                                                                         : errc_name(refusal.code);
  return body_of(refusal, limited ? "requests" : error_type(http_status(refusal.code)), code, param,
                 choice);
}

std::string error_for(std::string_view path, int status, std::string body) {
  if (path.starts_with("/api/")) return ollama_error(body);
  if (!path.starts_with("/v1/messages")) return body;
  auto document = try_parse_json<nlohmann::ordered_json>(body);
  if (!document.is_object() || !document.contains("error")) return body;
  nlohmann::ordered_json& error = document["error"];
  error["type"] = anthropic_type(status);
  if (error["code"] == "context_length_exceeded" && error.contains("needed")) {
    error["message"] = "prompt is too long: " + error["needed"].dump() + " tokens > " +
                       error["largest"].dump() + " maximum; " + error["message"].get<std::string>();
  }
  return nlohmann::ordered_json{{"type", "error"}, {"error", std::move(error)}}.dump();
}

Response error_response(const wire::Refusal& refusal, const std::string& param) {
  Response response;
  response.status = http_status(refusal.code);
  response.body = error_body(refusal, param);
  if (response.status == 429 || response.status == 503) {
    const std::int64_t seconds = (std::max<std::int64_t>(refusal.retry_after_ms, 0) + 999) / 1000;
    response.headers.emplace_back("Retry-After",
                                  std::to_string(std::max<std::int64_t>(seconds, 1)));
  }
  for (Header& header : rate_headers(refusal.key)) response.headers.push_back(std::move(header));
  return response;
}

wire::Refusal stopping(const std::string& request_id) {
  wire::Refusal refusal;
  refusal.code = Errc::kDraining;
  refusal.message =
      "the server is stopping, and nothing of request " + request_id +
      " is lost: come back with Last-Event-ID or the same Idempotency-Key, or ask for "
      "/v1/requests/" +
      request_id;
  refusal.retry_after_ms = 1'000;
  return refusal;
}

Response error_response(const FieldError& error) {
  wire::Refusal refusal;
  refusal.code = Errc::kInvalidRequest;
  refusal.message = error.message;
  return error_response(refusal, error.param);
}

Response error_response(int status, const std::string& message) {
  wire::Refusal refusal;
  refusal.message = message;
  Response response;
  response.status = status;
  refusal.code = status >= 500   ? Errc::kInternal
                 : status == 404 ? Errc::kNotFound
                                 : Errc::kInvalidRequest;
  response.body = body_of(refusal, error_type(status), errc_name(refusal.code), {}, -1);
  return response;
}

}  // namespace holdfast::gateway
