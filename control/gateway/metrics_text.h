#pragma once
// The text of /metrics: what the daemon tells, and what the gateway counts itself.

#include <string>

#include "control/gateway/common/webhook_stats.h"
#include "control/gateway/http/http_stats.h"

namespace holdfast::gateway {

/// The names of metrics: what vLLM has too is there under both.
enum class MetricNames { kAll, kOurs, kVllm };

/// `document`: the daemon's answer to the operator verb `metrics`. If it is nullptr or cannot be
/// read, holdfast_daemon_up is 0 and only the gateway's own metrics follow.
std::string metrics_text(const std::string* document, const HttpStats& http,
                         const WebhookStats& webhooks, MetricNames names = MetricNames::kAll);

}  // namespace holdfast::gateway
