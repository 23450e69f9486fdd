#pragma once
// One POST to a webhook's target, on the thread that calls: no redirect is followed, the address
// that was checked is the one that is connected to, an answer is read up to a bound and thrown
// away.

#include <chrono>
#include <functional>
#include <string>

#include "control/gateway/http_types.h"
#include "shared/client/webhook.h"

namespace holdfast::gateway {

struct WebhookPost {
  client::WebhookUrl url;
  bool may_be_private = false;  // addresses of this machine and of private networks, and plain HTTP
  std::vector<Header> headers;
  std::string body;
  std::chrono::milliseconds limit{8'000};  // for all of it; the look-up of the name has 3 s of it
  std::function<bool()> stopping = {};     // true: give up now
};
struct WebhookAnswer {
  int status = 0;     // 0: there was no answer
  std::string error;  // why, for people
};

/// https is verified against the system's authorities (or $SSL_CERT_FILE) and the host's name.
WebhookAnswer send_webhook(const WebhookPost& post);

}  // namespace holdfast::gateway
