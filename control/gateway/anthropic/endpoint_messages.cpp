// POST /v1/messages and /v1/messages/count_tokens.

#include <nlohmann/json.hpp>

#include "control/gateway/anthropic/message_body.h"
#include "control/gateway/common/answers.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/post_generation.h"
#include "control/gateway/common/post_headers.h"
#include "control/gateway/common/token_question.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// Reads Anthropic's body; options of the generation do not matter for the count.
bool read_message_count(const json& body, const ParamLimits& limits, TokenizeRequest* request,
                        FieldError* error) {
  json input = body;
  if (!input.contains("max_tokens")) input["max_tokens"] = 1;
  Generation generation;
  if (!parse_message(input, limits, &generation, error)) return false;
  count_prompt(std::move(generation), request);
  return true;
}

void show_message_count(const ExchangePtr& exchange, const TokenizeRequest& request,
                        const json& document) {
  Response response = json_response({{"input_tokens", count_of(document)}});
  response.headers = answer_headers(request.ignored, false);
  exchange->respond(std::move(response));
}

}  // namespace

void post_messages(Context& context, const ExchangePtr& exchange, const Captures&) {
  post_generation(context, exchange, parse_message);
}

void post_message_count(Context& context, const ExchangePtr& exchange, const Captures&) {
  ask_tokens(context, exchange, {"models.tokenize", read_message_count, show_message_count});
}

}  // namespace holdfast::gateway
