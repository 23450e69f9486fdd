// POST /v1/responses/input_tokens.

#include <nlohmann/json.hpp>

#include "control/gateway/common/answers.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/post_headers.h"
#include "control/gateway/common/token_question.h"
#include "control/gateway/responses/response_body.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// Reads a body of the responses API; options of the generation do not matter for the count.
bool read_input_count(const json& body, const ParamLimits& limits, TokenizeRequest* request,
                      FieldError* error) {
  ResponsesRequest input;
  json chat;
  if (!parse_response(body, &input, error)) return false;
  if (!input.previous.empty()) {
    *error = {"'previous_response_id' is not counted here: send its items in 'input'",
              "previous_response_id"};
    return false;
  }
  if (!chat_body(input, {input.items}, &chat, error)) return false;
  Generation generation;
  if (!parse_chat(chat, limits, &generation, error)) return false;
  count_prompt(std::move(generation), request);
  return true;
}

void show_input_count(const ExchangePtr& exchange, const TokenizeRequest& request,
                      const json& document) {
  Response response =
      json_response({{"object", "response.input_tokens"}, {"input_tokens", count_of(document)}});
  response.headers = answer_headers(request.ignored, false);
  exchange->respond(std::move(response));
}

}  // namespace

void post_input_count(Context& context, const ExchangePtr& exchange, const Captures&) {
  ask_tokens(context, exchange, {"models.tokenize", read_input_count, show_input_count});
}

}  // namespace holdfast::gateway
