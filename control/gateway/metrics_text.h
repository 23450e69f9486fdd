#pragma once
// The text of /metrics: what the daemon says, and what the gateway has counted itself.

#include <string>

#include "control/gateway/http_stats.h"
#include "control/gateway/webhook_stats.h"

namespace holdfast::gateway {

/// `document`: the daemon's answer to the operator verb `metrics`; nullptr, or a text that is none:
/// holdfast_daemon_up is 0 and the gateway's own metrics are all there is.
std::string metrics_text(const std::string* document, const HttpStats& http,
                         const WebhookStats& webhooks);

}  // namespace holdfast::gateway
