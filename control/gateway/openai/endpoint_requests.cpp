// Requests by id: their state, their stream again, their cancellation.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/gateway/common/attachment.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/render.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/sse.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;
using InfoAnswer = client::Answer<wire::RequestInfo>;

json choices_json(const wire::RequestInfo& info) {
  json out = json::array();
  for (const wire::ChoiceInfo& choice : info.choices) {
    json one;
    one["index"] = choice.choice;
    one["prompt"] = choice.prompt;
    one["tokens"] = choice.next_index;
    const bool over = choice.finish != wire::FinishReason::kNone;
    one["finish_reason"] = over ? json(wire::finish_name(choice.finish)) : json();
    if (!choice.error_code.empty()) {
      one["error"] = {{"code", choice.error_code}, {"message", choice.error}};
    }
    out.push_back(std::move(one));
  }
  return out;
}

Response request_response(const wire::RequestInfo& info) {
  const Shape shape = decode_shape(info.meta);
  json body;
  body["id"] = info.request_id;
  body["object"] = "request";
  body["public_id"] = public_id(shape.api, info.request_id);
  body["endpoint"] = api_path(shape.api);
  if (!shape.client_id.empty()) body["client_request_id"] = shape.client_id;
  body["state"] = wire::state_name(info.state);
  body["model"] = info.model;
  if (!info.alias.empty()) body["alias"] = info.alias;
  body["model_sha256"] = info.model_sha;
  body["created"] = info.created_ms / 1000;
  body["created_ms"] = info.created_ms;
  if (info.finished_ms > 0) body["finished_ms"] = info.finished_ms;
  body["max_tokens"] = info.max_tokens;
  body["prompt_tokens"] = info.prompt_tokens;
  body["seed"] = info.sampling.seed;
  body["choices"] = choices_json(info);
  body["usage"] = try_parse_json<json>(usage_json(info));
  if (info.queue_position >= 0) body["queue_position"] = info.queue_position;
  if (info.eta_ms >= 0) body["eta_ms"] = info.eta_ms;
  Response response;
  response.headers.emplace_back("X-Request-Id", info.request_id);
  response.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return response;
}

/// Returns a handler that continues with `work` on the strand, or answers with the failure.
std::function<void(InfoAnswer)> then(const ExchangePtr& exchange,
                                     std::function<void(wire::RequestInfo)> work) {
  return [exchange, work = std::move(work)](InfoAnswer answer) {
    exchange->post([exchange, work, answer = std::move(answer)]() mutable {
      if (const auto* failure = std::get_if<client::Failure>(&answer)) {
        return exchange->respond(error_response(*failure));
      }
      work(std::move(std::get<wire::RequestInfo>(answer)));
    });
  };
}

/// Reads where the client wants to resume: Last-Event-ID, else ?from=.
bool read_start(const Request& request, const std::string& request_id,
                std::vector<std::int64_t>* resume_from, FieldError* error) {
  const std::string* last = request.header("Last-Event-ID");
  if (last != nullptr && !last->empty()) {
    const auto id = parse_event_id(*last);
    if (!id || id->request_id != request_id) {
      *error = {"Last-Event-ID is not an id of request " + request_id, "Last-Event-ID"};
      return false;
    }
    *resume_from = id->sent;
    return true;
  }
  const std::string* from = request.query_value("from");
  if (from == nullptr) return true;
  auto indexes = parse_indexes(*from);
  if (!indexes) {
    *error = {"'from' must be a token index, or one for each choice: 5 or 5,0,7", "from"};
    return false;
  }
  *resume_from = std::move(*indexes);
  // from=0 is the start; an id with index 0 belongs to a client that has only the first event.
  if (std::all_of(resume_from->begin(), resume_from->end(), [](std::int64_t i) { return i == 0; }))
    resume_from->clear();
  return true;
}

/// Reads the form in which the answer is shown: ?form=tokens, else that of the request's API.
bool read_form(const Request& request, Shape* shape, FieldError* error) {
  const std::string* form = request.query_value("form");
  if (form == nullptr) {
    // Lines of Ollama's form have no ids from which a stream could go on.
    if (is_ollama(shape->api) && !is_embedding(shape->api)) {
      shape->api = is_chat(shape->api) ? Api::kChat : Api::kCompletions;
    }
    shape->stream = !is_whole(*shape);
    return true;
  }
  if (*form != "tokens") {
    *error = {"'form' must be 'tokens', or absent for the form of the request's API", "form"};
    return false;
  }
  shape->api = Api::kTokens;
  shape->stream = true;
  return true;
}

/// Answers 404 for a text that cannot be an id.
bool check_id(const ExchangePtr& exchange, const std::string& id) {
  if (is_request_id(id)) return true;
  exchange->respond(no_such_request(id));
  return false;
}

}  // namespace

void get_request(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  if (!check_id(exchange, captures[0])) return;
  context.client.status_async(caller_of(exchange->request()), captures[0],
                              then(exchange, [exchange](const wire::RequestInfo& info) {
                                exchange->respond(request_response(info));
                              }));
}

void delete_request(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  if (!check_id(exchange, captures[0])) return;
  context.client.cancel_async(caller_of(exchange->request()), captures[0],
                              then(exchange, [exchange](const wire::RequestInfo& info) {
                                exchange->respond(request_response(info));
                              }));
}

void get_request_stream(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  if (!check_id(exchange, captures[0])) return;
  View view;
  FieldError error;
  if (!read_start(exchange->request(), captures[0], &view.resume_from, &error)) {
    return exchange->respond(error_response(error));
  }
  const auto start = [&context, exchange, view](wire::RequestInfo info) mutable {
    view.shape = decode_shape(info.meta);
    FieldError wrong;
    if (!read_form(exchange->request(), &view.shape, &wrong)) {
      return exchange->respond(error_response(wrong));
    }
    const std::size_t choices =
        std::max(info.choices.size(), static_cast<std::size_t>(std::max(view.shape.choices, 1)));
    if (view.resume_from.size() == 1) view.resume_from.resize(choices, view.resume_from[0]);
    if (!view.resume_from.empty() && view.resume_from.size() != choices) {
      return exchange->respond(error_response(FieldError{std::to_string(view.resume_from.size()) +
                                                             " indexes given, this request has " +
                                                             std::to_string(choices) + " choices",
                                                         "from"}));
    }
    show_request(context, exchange, std::move(info), std::move(view));
  };
  context.client.status_async(caller_of(exchange->request()), captures[0], then(exchange, start));
}

}  // namespace holdfast::gateway
