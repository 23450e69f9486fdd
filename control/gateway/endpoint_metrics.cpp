// GET /metrics, with ?names=holdfast or ?names=vllm under one set of names alone. The daemon is
// asked for its part on each request, within a time limit.

#include <memory>
#include <utility>

#include "control/gateway/common/daemon_metrics.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/metrics_text.h"

namespace holdfast::gateway {
namespace {

MetricNames names_of(const Request& request) {
  const std::string* names = request.query_value("names");
  if (names != nullptr && *names == "holdfast") return MetricNames::kOurs;
  if (names != nullptr && *names == "vllm") return MetricNames::kVllm;
  return MetricNames::kAll;
}

void answer(Context& context, const ExchangePtr& exchange, const std::string* document) {
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.body =
      metrics_text(document, *context.http, *context.webhooks, names_of(exchange->request()));
  exchange->respond(std::move(response));
}

}  // namespace

void answer_gateway_metrics(Context& context, const ExchangePtr& exchange) {
  answer(context, exchange, nullptr);
}

void get_metrics(Context& context, const ExchangePtr& exchange, const Captures&) {
  if (context.daemon_metrics == nullptr) return answer(context, exchange, nullptr);
  // The daemon's answer and the time limit race; the second finds the exchange answered.
  auto open = std::make_shared<bool>(true);
  exchange->after(context.metrics_time, [&context, exchange, open] {
    if (std::exchange(*open, false)) answer(context, exchange, nullptr);
  });
  // A waiting handler must not keep the connection alive.
  context.daemon_metrics->ask(
      [&context, waits = std::weak_ptr(exchange), open](DaemonMetrics::Document document) {
        const ExchangePtr waiting = waits.lock();
        if (waiting == nullptr) return;
        waiting->post([&context, waiting, open, document = std::move(document)] {
          if (std::exchange(*open, false)) answer(context, waiting, document.get());
        });
      });
}

}  // namespace holdfast::gateway
