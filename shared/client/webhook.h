#pragma once
// Webhooks: targets that are told of ended batches, responses and pulls, and the signature of a
// message (https://www.standardwebhooks.com). Targets are objects of the kind "webhook"
// (docs/use/webhooks.md):
// {"url", "events", "tenant", "private", "secrets": [{"secret", "until_ms"}]}.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::client {

inline constexpr const char* kWebhookKind = "webhook";
/// Deliveries: due ones, and those that ended; both have the delivery's id.
inline constexpr const char* kDueKind = "webhook.due";
inline constexpr const char* kDoneKind = "webhook.done";

/// The events that a webhook may subscribe to: those of a batch, of a response and of
/// a pull.
inline constexpr const char* kWebhookEvents[] = {
    "batch.completed",    "batch.failed",    "batch.expired",      "batch.cancelled",
    "response.completed", "response.failed", "response.cancelled", "response.incomplete",
    "pull.done",          "pull.failed",     "pull.cancelled"};

/// Returns "whsec_" and the base64 of 32 random bytes.
std::string new_webhook_secret();

/// Returns "v1,BASE64": HMAC-SHA256 of "ID.TIMESTAMP.BODY" with the bytes that "whsec_" precedes.
/// kInvalidRequest: the secret is not valid.
Result<std::string> sign_webhook(std::string_view secret, std::string_view id,
                                 std::int64_t timestamp_s, std::string_view body);

/// The parts of a webhook's URL.
struct WebhookUrl {
  bool https = true;
  std::string host;  // a name, or an address without brackets
  std::uint16_t port = 443;
  std::string path;      // with the query, at least "/"
  bool numeric = false;  // the host is an address
};
/// Parses http and https URLs without user and fragment. kUsage says what is wrong.
Result<WebhookUrl> parse_webhook_url(std::string_view url);

/// Returns false for an address of this machine, of a private network, or of no single host: no
/// host on the internet can answer there. `address` is in getaddrinfo's numeric form.
bool is_public_address(const std::string& address);

}  // namespace holdfast::client
