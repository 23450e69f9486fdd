// Health: live if the gateway runs and the daemon's loop turns; ready if the daemon and its models
// are.

#include <memory>

#include "control/gateway/common/endpoints.h"
#include "control/gateway/http/json_body.h"

namespace holdfast::gateway {
namespace {

Response unready(const std::string& reason) {
  Response response;
  response.status = 503;
  response.headers.emplace_back("Retry-After", "1");
  response.body = "{\"status\":\"unready\",\"reason\":";
  append_json_string(response.body, reason);
  response.body += "}";
  return response;
}

Response readiness(const client::Answer<std::vector<wire::ModelInfo>>& answer) {
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return unready(std::string(errc_name(failure->code)) + ": " + failure->message);
  }
  const auto& models = std::get<0>(answer);
  std::string states;
  for (const wire::ModelInfo& model : models) {
    if (model.state == "ready") {
      Response response;
      response.body = "{\"status\":\"ready\"}";
      return response;
    }
    states += (states.empty() ? " (" : ", ") + model.name + ": " + model.state;
  }
  if (models.empty()) return unready("no model is registered");
  return unready("no model is ready" + states + ")");
}

}  // namespace

void get_live(Context& context, const ExchangePtr& exchange, const Captures&) {
  Response response;
  const std::int64_t silent_ms = context.client.silent_ms();
  if (silent_ms > context.live_time.count()) {
    response.status = 503;
    response.headers.emplace_back("Retry-After", "1");
    response.body =
        "{\"status\":\"daemon_silent\",\"silent_ms\":" + std::to_string(silent_ms) + "}";
  } else {
    response.body = "{\"status\":\"ok\"}";
  }
  exchange->respond(std::move(response));
}

void get_ready(Context& context, const ExchangePtr& exchange, const Captures&) {
  // The daemon's answer and the time limit race; the second finds the exchange answered.
  auto open = std::make_shared<bool>(true);
  exchange->after(context.ready_time, [exchange, open] {
    if (std::exchange(*open, false)) exchange->respond(unready("the daemon does not answer"));
  });
  context.client.models_async(
      client::AllTenants::local(),
      [exchange, open](client::Answer<std::vector<wire::ModelInfo>> answer) {
        exchange->post([exchange, open, answer = std::move(answer)] {
          if (std::exchange(*open, false)) exchange->respond(readiness(answer));
        });
      });
}

}  // namespace holdfast::gateway
