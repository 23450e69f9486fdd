// Ollama's pull: starts a pull as any operator may, and tells of it in lines until its end.

#include <nlohmann/json.hpp>
#include <string>

#include "control/gateway/common/endpoints.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/ollama/ollama_body.h"
#include "control/gateway/ollama/ollama_change.h"
#include "control/gateway/ollama/pull_lines.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// The source that Ollama means by a model's name: its registry, or the hub's by the hub's host.
std::string source_of(const std::string& name) {
  const bool whole = name.find("://") != std::string::npos || name.starts_with("hf.co/") ||
                     name.starts_with("huggingface.co/");
  return whole ? name : "ollama://" + name;
}

}  // namespace

void post_ollama_pull(Context& context, const ExchangePtr& exchange, const Captures&) {
  const auto body = read_model_change(context, exchange);
  if (!body) return;
  const std::string model = named_model(*body);
  if (model.empty()) {
    return exchange->respond(
        error_response(FieldError{"'model' is required: the name of a model in Ollama's registry, "
                                  "hf.co/ORG/REPO:QUANT or a URL",
                                  "model"}));
  }
  const bool stream = body->value("stream", json(true)) != json(false);
  json args = {{"source", source_of(model)}};
  if (model.find("://") == std::string::npos) args["name"] = model;
  change_models(context, exchange, "pulls.start", args,
                [&context, exchange, stream](const std::string& result) {
                  const json pull = try_parse_json<json>(result);
                  tell_of_pull(context, exchange, pull.value("name", std::string()), stream);
                });
}

}  // namespace holdfast::gateway
