// Ollama's API: what changes the names of models, for operators.

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "control/gateway/common/answers.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/http/page_guard.h"
#include "control/gateway/ollama/ollama_body.h"
#include "control/gateway/ollama/ollama_change.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kRemovePause{50};
constexpr std::chrono::milliseconds kRemoveTime{10'000};  // for running requests to end

/// Removes a name whose model is being unloaded, and answers. Until `end` it is tried again while
/// the model is still in use.
void remove_when_unloaded(Context& context, const ExchangePtr& exchange, const json& args,
                          std::chrono::steady_clock::time_point end) {
  const auto answered = [&context, exchange, args, end](client::Answer<std::string> got) {
    exchange->post([&context, exchange, args, end, got = std::move(got)] {
      const auto* failure = std::get_if<client::Failure>(&got);
      if (failure == nullptr) return exchange->respond(Response());
      const bool in_use = failure->code == Errc::kConflict;
      if (!in_use || std::chrono::steady_clock::now() >= end) {
        return exchange->respond(error_response(*failure));
      }
      exchange->after(kRemovePause, [&context, exchange, args, end] {
        remove_when_unloaded(context, exchange, args, end);
      });
    });
  };
  context.operating->op_async(*client::AllTenants::of(exchange->request().from), "models.remove",
                              args.dump(), answered);
}

}  // namespace

bool may_change_models(Context& context, const ExchangePtr& exchange) {
  if (!client::AllTenants::of(exchange->request().from)) {
    exchange->respond(forbidden(
        "models are changed by operators: this key's role is another one (holdfast keys create "
        "NAME --role operator)"));
    return false;
  }
  if (context.operating != nullptr) return true;
  exchange->respond(error_response(503, "the daemon's models cannot be changed"));
  return false;
}

std::optional<json> read_model_change(Context& context, const ExchangePtr& exchange) {
  if (!may_change_models(context, exchange)) return std::nullopt;
  json body;
  FieldError error;
  if (parse_json_object(exchange->request().body, &body, &error)) {
    for (const char* name : {"model", "name", "source", "destination", "from"}) {
      if (!body.contains(name) || body[name].is_string()) continue;
      error = {std::string("'") + name + "' must be a string, the name of a model", name};
    }
  }
  if (error.message.empty()) return body;
  exchange->respond(error_response(error));
  return std::nullopt;
}

void change_models(Context& context, const ExchangePtr& exchange, const std::string& verb,
                   const json& args, std::function<void(std::string result)> then) {
  context.operating->op_async(*client::AllTenants::of(exchange->request().from), verb, args.dump(),
                              on_strand<std::string>(exchange, std::move(then)));
}

void delete_ollama_model(Context& context, const ExchangePtr& exchange, const Captures&) {
  const auto body = read_model_change(context, exchange);
  if (!body) return;
  const json args = {{"name", named_model(*body)}};
  change_models(context, exchange, "models.unload", args,
                [&context, exchange, args](const std::string&) {
                  remove_when_unloaded(context, exchange, args,
                                       std::chrono::steady_clock::now() + kRemoveTime);
                });
}

void add_name(Context& context, const ExchangePtr& exchange, const std::string& from,
              const std::string& name, std::function<void(json& args)> change,
              std::function<void()> then) {
  const json named = {{"name", without_latest(from)}};
  const auto add = [&context, exchange, name, change = std::move(change),
                    then = std::move(then)](const std::string& result) {
    const json model = try_parse_json<json>(result);
    json args = {{"name", without_latest(name)}};
    for (const char* member : {"path", "context", "slots", "kv_type", "options", "profile"}) {
      if (model.is_object() && model.contains(member)) args[member] = model[member];
    }
    if (change) change(args);
    change_models(context, exchange, "models.add", args, [then](const std::string&) { then(); });
  };
  change_models(context, exchange, "models.show", named, add);
}

void post_ollama_copy(Context& context, const ExchangePtr& exchange, const Captures&) {
  const auto body = read_model_change(context, exchange);
  if (!body) return;
  const auto source = body->value("source", std::string());
  const auto destination = body->value("destination", std::string());
  if (source.empty() || destination.empty()) {
    const std::string missing = source.empty() ? "source" : "destination";
    return exchange->respond(
        error_response(FieldError{"'" + missing + "' is required: the name of a model", missing}));
  }
  add_name(context, exchange, source, destination, {},
           [exchange] { exchange->respond(Response()); });
}

void refuse_ollama_push(Context&, const ExchangePtr& exchange, const Captures&) {
  exchange->respond(error_response(
      501,
      "models are not sent to registries: copy the file that `holdfast models show NAME` names"));
}

}  // namespace holdfast::gateway
