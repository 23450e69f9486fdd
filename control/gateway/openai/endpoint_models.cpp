// The list of models, in OpenAI's shape with members of our own.

#include <nlohmann/json.hpp>

#include "control/gateway/common/answers.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/http/errors.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;
using Models = std::vector<wire::ModelInfo>;

json capabilities_json(const wire::ModelInfo& model) {
  const chat::OutputKind kind = chat::read_output(model.output);
  return {{"completion", !model.encoder},
          {"chat", model.chat && !model.encoder},
          {"embeddings", true},
          {"tools", model.chat && kind.format != chat::ToolFormat::kNone},
          {"reasoning", kind.reasoning},
          {"structured_output", !model.encoder},
          {"vision", false}};
}

json model_json(const wire::ModelInfo& model) {
  json out;
  out["id"] = model.name;
  out["object"] = "model";
  out["created"] = model.created_ms / 1000;
  out["owned_by"] = "holdfast";
  out["state"] = model.state;
  if (!model.reason.empty()) out["reason"] = model.reason;
  out["architecture"] = model.architecture;
  out["context"] = model.context;
  out["max_model_len"] = model.context;  // the name in vLLM's API
  out["chat"] = model.chat;
  if (!model.sha.empty()) out["sha256"] = model.sha;  // hidden from some keys
  if (!model.alias_of.empty()) out["alias_of"] = model.alias_of;
  out["capabilities"] = capabilities_json(model);
  // Programs that find no modalities may send pictures, or strip what they should not.
  out["modalities"] = {{"input", json::array({"text"})},
                       {"output", json::array({model.encoder ? "vectors" : "text"})}};
  return out;
}

/// Asks the daemon and answers with what `show` makes of the models.
void with_models(Context& context, const ExchangePtr& exchange,
                 std::function<Response(const Models&)> show) {
  context.client.models_async(
      caller_of(exchange->request()),
      on_strand<Models>(exchange, [exchange, show = std::move(show)](const Models& models) {
        exchange->respond(show(models));
      }));
}

}  // namespace

void get_models(Context& context, const ExchangePtr& exchange, const Captures&) {
  with_models(context, exchange, [](const Models& models) {
    json body;
    body["object"] = "list";
    body["data"] = json::array();
    for (const wire::ModelInfo& model : models) body["data"].push_back(model_json(model));
    return json_response(body);
  });
}

void get_model(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  with_models(context, exchange, [name = captures[0]](const Models& models) {
    for (const wire::ModelInfo& model : models) {
      if (model.name == name) return json_response(model_json(model));
    }
    wire::Refusal refusal;
    refusal.code = Errc::kModelNotFound;
    refusal.message = "model '" + name + "' is not registered (GET /v1/models lists them)";
    return error_response(refusal, "model");
  });
}

}  // namespace holdfast::gateway
