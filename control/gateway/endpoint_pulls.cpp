// /v1/pulls: downloads of models as durable jobs, for operators.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "control/gateway/common/answers.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/http/page_guard.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr std::int64_t kRateMax = std::int64_t{1} << 40;

/// Returns the right of an operator. Answers others, and where the daemon's rows cannot be read.
std::optional<client::AllTenants> operators_of(Context& context, const ExchangePtr& exchange) {
  auto operators = client::AllTenants::of(exchange->request().from);
  if (!operators) {
    exchange->respond(
        forbidden("models are pulled by operators: this key's role is another one (holdfast keys "
                  "create NAME --role operator)"));
  } else if (context.operating == nullptr) {
    exchange->respond(error_response(503, "the daemon's pulls cannot be read"));
    return std::nullopt;
  }
  return operators;
}

/// Has the daemon do a verb for an operator and answers with its document.
void answer_verb(Context& context, const ExchangePtr& exchange, const std::string& verb,
                 const json& args, int status) {
  const auto operators = operators_of(context, exchange);
  if (!operators) return;
  const auto answer = [exchange, status](std::string text) {
    Response response;
    response.status = status;
    response.body = std::move(text);
    exchange->respond(std::move(response));
  };
  context.operating->op_async(*operators, verb, args.dump(),
                              on_strand<std::string>(exchange, answer));
}

/// Reads the body of a pull into the arguments of its verb.
std::optional<FieldError> read_pull(const json& body, json* args) {
  Fields fields(body);
  std::string text;
  for (const char* name : {"source", "name"}) {
    if (fields.text(name, &text)) (*args)[name] = text;
  }
  bool load = false;
  if (fields.boolean("load", &load)) (*args)["load"] = load;
  std::int64_t rate = 0;
  if (fields.integer("rate_bytes_s", 0, kRateMax, &rate)) (*args)["rate_bytes_s"] = rate;
  if (!args->contains("source")) {
    fields.fail("source",
                "is required: hf.co/ORG/REPO[:QUANT], https://HOST/FILE.gguf, "
                "ollama://NAME[:TAG] or oci://HOST/REPOSITORY[:TAG]");
  }
  for (const std::string& name : fields.unknown()) fields.fail(name, "is not known");
  return fields.error();
}

}  // namespace

void post_pulls(Context& context, const ExchangePtr& exchange, const Captures&) {
  if (!operators_of(context, exchange)) return;
  json body, args = json::object();
  FieldError error;
  if (!parse_json_object(exchange->request().body, &body, &error)) {
    return exchange->respond(error_response(error));
  }
  if (const auto wrong = read_pull(body, &args)) return exchange->respond(error_response(*wrong));
  answer_verb(context, exchange, "pulls.start", args, 202);
}

void get_pulls(Context& context, const ExchangePtr& exchange, const Captures&) {
  answer_verb(context, exchange, "pulls.list", json::object(), 200);
}

void get_pull(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  answer_verb(context, exchange, "pulls.show", {{"name", captures.front()}}, 200);
}

void delete_pull(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  answer_verb(context, exchange, "pulls.cancel", {{"name", captures.front()}}, 200);
}

}  // namespace holdfast::gateway
