#pragma once
// One POST to a webhook's target, on the calling thread. No redirect is followed, the connection
// goes to the address that was checked, and the answer is read up to a bound and dropped.

#include <chrono>
#include <functional>
#include <string>

#include "control/gateway/http/http_types.h"
#include "shared/client/webhook.h"

namespace holdfast::gateway {

/// One attempt of a delivery.
struct WebhookPost {
  client::WebhookUrl url;
  bool may_be_private = false;  // private and loopback addresses, plain HTTP
  std::vector<Header> headers;
  std::string body;
  std::chrono::milliseconds limit{8'000};  // for all of it; 3 s of it for the look-up
  std::function<bool()> stopping = {};     // polled; true: give up now
};
/// The result of an attempt.
struct WebhookAnswer {
  int status = 0;     // 0: there was no answer
  std::string error;  // why, for people
};

/// Sends and blocks until the answer or the limit. https is verified against the system's
/// authorities (or $SSL_CERT_FILE) and the host's name.
WebhookAnswer send_webhook(const WebhookPost& post);

}  // namespace holdfast::gateway
