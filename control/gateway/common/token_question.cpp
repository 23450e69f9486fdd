#include "control/gateway/common/token_question.h"

#include <nlohmann/json.hpp>

#include "control/gateway/common/answers.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "shared/base/base64.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// Asks the daemon. The slot is held until the answer has been made.
void ask(Context& context, const ExchangePtr& exchange, const TokenQuestion& question,
         const TenantSlots::Slot& turn) {
  TokenizeRequest request;
  FieldError error;
  json body;
  if (!parse_json_object(exchange->request().body, &body, &error) ||
      !question.read(body, context.params, &request, &error)) {
    return exchange->respond(error_response(error));
  }
  // Questions of a key count as its requests do, and before any work is done for them.
  const ApiKey& key = exchange->request().from.api_key;
  (*request.args)["api_key"] = key.id;
  if (key.requests_per_minute)
    (*request.args)["key_requests_per_minute"] = *key.requests_per_minute;
  (*request.args)["tenant"] = exchange->request().from.tenant();
  const std::string args = request.args->dump();
  request.args.reset();
  const auto answer = [exchange, request = std::move(request), show = question.show,
                       turn](const std::string& text) {
    try {
      show(exchange, request, try_parse_json<json>(text));
    } catch (const json::exception& e) {
      exchange->respond(error_response(500, std::string("the daemon's answer: ") + e.what()));
    }
  };
  context.operating->op_async(exchange->request().from, question.verb, args,
                              on_strand<std::string>(exchange, answer));
}

Response too_many_wait() {
  wire::Refusal refusal;
  refusal.code = Errc::kRateLimited;
  refusal.message = std::to_string(TenantSlots::kWaitingMax) +
                    " long texts of this tenant wait for their tokens already";
  refusal.retry_after_ms = 1'000;
  return error_response(refusal);
}

}  // namespace

void ask_tokens(Context& context, const ExchangePtr& exchange, const TokenQuestion& question) {
  constexpr std::size_t kShort = 4 * 1024;
  const Request& request = exchange->request();
  if (request.body.size() <= kShort) return ask(context, exchange, question, nullptr);
  const auto granted = [&context, exchange, question](const TenantSlots::Slot& turn) {
    exchange->post(
        [&context, exchange, question, turn] { ask(context, exchange, question, turn); });
  };
  if (!context.token_turns->take(request.from.tenant(), granted)) {
    exchange->respond(too_many_wait());
  }
}

void count_prompt(Generation generation, TokenizeRequest* request) {
  request->ignored = std::move(generation.ignored);
  request->args =
      std::make_shared<json>(json{{"model", generation.submit.model},
                                  {"messages_json", *generation.submit.prompts[0].messages_json},
                                  {"packed_ids", true}});
}

std::int64_t count_of(const json& document) {
  constexpr std::size_t kIdBytes = 4;
  const std::string bytes = from_base64(document.value("id_bytes", "")).value_or("");
  return static_cast<std::int64_t>(bytes.size() / kIdBytes);
}

}  // namespace holdfast::gateway
